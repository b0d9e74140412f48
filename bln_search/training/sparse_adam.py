"""Adam for large tables of which a mini-batch gives only some rows a gradient, as token embeddings.

Dense Adam updates every row at every step, because a row without a gradient still moves along its decaying first
moment, and the gradient is a dense table of mostly zeros. Here the gradient is sparse (rows). A row without a gradient
for `_IDLE_STEPS` steps is inactive: its first moment has decayed to 0.9^200, which moves no single-precision weight.
When it gets a gradient again, its two moments are first decayed to their values in dense Adam. The weights thus equal
those of dense Adam up to rounding. Where few rows are inactive, as with many texts in a mini-batch, all are updated.

Source of the update: Kingma & Ba 2015, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from bln_search.core.errors import ModelError

EPSILON = 1e-8
"""Default ε, added to the root of the second moment."""

_IDLE_STEPS = 200
_EVERY = 64
_FEW = 1 / 4
"""Below this share of active rows it is faster to gather them."""

_START = (-_IDLE_STEPS, 0, -1)
"""Never seen, up to date before the first step, without a place."""


@dataclass
class _Table:
    """One parameter: its averages, how far each row is, and which rows are under way (None: all of them).

    gradient: zeros between steps. steps, step: how many were made, for us and for torch's function. seen, updated: of
    each row the step of its last gradient and of its last update. place: of each row its place in `moving`, or -1.
    own_mean, own_square: the averages of the rows in `moving`, side by side; the whole tables have those of the others.
    own_weight, own_gradient: room for their weights and gradients. All four are taken once, as large as they may get.
    """

    mean: Tensor
    square: Tensor
    gradient: Tensor
    step: Tensor
    seen: Tensor
    updated: Tensor
    place: Tensor
    moving: Tensor | None
    own_mean: Tensor
    own_square: Tensor
    own_weight: Tensor
    own_gradient: Tensor
    steps: int = 0

    @staticmethod
    def of(parameter: Tensor) -> _Table:
        """Nothing seen yet."""
        seen, updated, place = (torch.full((len(parameter),), start, device=parameter.device) for start in _START)
        mean, square, gradient = (torch.zeros_like(parameter) for _ in range(3))
        step = torch.zeros((), dtype=torch.float32, device=parameter.device)
        most = int(_FEW * len(parameter))
        own_mean, own_square, own_weight, own_gradient = (mean.new_empty(most, *mean.shape[1:]) for _ in range(4))
        return _Table(
            mean=mean,
            square=square,
            gradient=gradient,
            step=step,
            seen=seen,
            updated=updated,
            place=place,
            moving=place[:0].clone(),
            own_mean=own_mean,
            own_square=own_square,
            own_weight=own_weight,
            own_gradient=own_gradient,
        )

    def gather(self, rows: Tensor, start: int) -> None:
        """Take over the averages of `rows` from the whole tables, at `start`."""
        end = start + len(rows)
        torch.index_select(self.mean, 0, rows, out=self.own_mean[start:end])
        torch.index_select(self.square, 0, rows, out=self.own_square[start:end])

    def write_back(self, now: int) -> None:
        """Averages of the rows in `moving` into the whole tables."""
        if self.moving is not None:
            count = len(self.moving)
            self.mean.index_copy_(0, self.moving, self.own_mean[:count])
            self.square.index_copy_(0, self.moving, self.own_square[:count])
            self.updated[self.moving] = now


def has_embedding(network: nn.Module) -> bool:
    """Does the network have a table of which a mini-batch reads some rows?"""
    return any(_gives_rows(module) for module in network.modules())


def _gives_rows(module: nn.Module) -> bool:
    """An embedding whose weight is a parameter of its own and may have a sparse gradient."""
    return isinstance(module, nn.Embedding) and "weight" in module._parameters and not module.scale_grad_by_freq


class SparseRowAdam(torch.optim.Adam):
    """torch's Adam, fused; a parameter whose gradient is sparse (rows) gets the same update at less cost."""

    def __init__(self, network: nn.Module, learning_rate: float, epsilon: float = EPSILON) -> None:
        super().__init__(network.parameters(), lr=learning_rate, eps=epsilon, fused=True)
        self._tables: dict[Tensor, _Table] = {}
        for module in network.modules():
            if isinstance(module, nn.Embedding) and _gives_rows(module):
                module.sparse = True

    def state_dict(self) -> dict[str, Any]:
        """Raise ModelError: the moments of inactive rows are not up to date."""
        raise ModelError("sparse Adam supports no state dict: train again, or use torch.optim.Adam")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every parameter that has a gradient."""
        sparse = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    sparse.append((parameter, parameter.grad.coalesce(), group))
                    parameter.grad = None
        result = super().step(closure)
        for parameter, gradient, group in sparse:
            if parameter not in self._tables:
                self._tables[parameter] = _Table.of(parameter)
            _step(parameter, gradient, self._tables[parameter], group)
        return result


def _step(parameter: Tensor, gradient: Tensor, table: _Table, group: dict[str, Any]) -> None:
    rows, values = gradient.indices()[0], gradient.values()
    now = table.steps
    table.steps += 1
    table.seen[rows] = table.steps
    if now % _EVERY == 0:
        _select_active(table, now, group["betas"])
    if table.moving is None:
        _dense(parameter, rows, values, table, group)
        return
    new = rows[table.place[rows] < 0]
    if len(table.moving) + len(new) > len(table.own_mean):
        _activate_all(table, now, group["betas"])
        _dense(parameter, rows, values, table, group)
        return
    moving = _activate(new, table, table.moving, now, group["betas"])
    count = len(moving)
    weight, own = table.own_weight[:count], table.own_gradient[:count]
    torch.index_select(parameter, 0, moving, out=weight)
    own.zero_().index_add_(0, table.place[rows], values)
    _update(weight, own, table.own_mean[:count], table.own_square[:count], table.step, group)
    parameter.index_copy_(0, moving, weight)


def _dense(parameter: Tensor, rows: Tensor, values: Tensor, table: _Table, group: dict[str, Any]) -> None:
    """Every row moves."""
    _update(parameter, table.gradient.index_add_(0, rows, values), table.mean, table.square, table.step, group)
    table.gradient.index_fill_(0, rows, 0.0)


def _activate_all(table: _Table, now: int, betas: tuple[float, float]) -> None:
    """Make every row active."""
    table.write_back(now)
    _catch_up((table.updated < now).nonzero()[:, 0], table, now, betas)
    table.moving = None


def _select_active(table: _Table, now: int, betas: tuple[float, float]) -> None:
    """Deactivate rows without a recent gradient; keep all active where few would be inactive."""
    recent = (table.seen > now - _IDLE_STEPS).nonzero()[:, 0]
    if len(recent) > len(table.own_mean):
        if table.moving is not None:
            _activate_all(table, now, betas)
        return
    if table.moving is None:
        table.updated.fill_(now)
    table.write_back(now)
    _catch_up(recent[table.updated[recent] < now], table, now, betas)
    table.place.fill_(-1)
    table.place[recent] = torch.arange(len(recent), device=recent.device)
    table.gather(recent, 0)
    table.moving = recent


def _activate(rows: Tensor, table: _Table, moving: Tensor, now: int, betas: tuple[float, float]) -> Tensor:
    """Return the active rows, with `rows` added."""
    if len(rows):
        _catch_up(rows, table, now, betas)
        table.gather(rows, len(moving))
        table.place[rows] = torch.arange(len(rows), device=rows.device) + len(moving)
        moving = table.moving = torch.cat([moving, rows])
    return moving


def _catch_up(rows: Tensor, table: _Table, now: int, betas: tuple[float, float]) -> None:
    """Decay the moments of inactive rows to their values after step `now`."""
    rested = (now - table.updated[rows]).unsqueeze(1)
    table.mean[rows] *= torch.pow(betas[0], rested.double()).to(table.mean.dtype)
    table.square[rows] *= torch.pow(betas[1], rested.double()).to(table.square.dtype)
    table.updated[rows] = now


def _update(
    parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, step: Tensor, group: dict[str, Any]
) -> None:
    """torch's own update; it raises `step` by one."""
    adam(
        [parameter],
        [gradient],
        [mean],
        [square],
        [],
        [step],
        fused=True,
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=0.0,
        eps=group["eps"],
        maximize=False,
    )
