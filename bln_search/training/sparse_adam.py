"""Adam for large tables in which only some rows get a gradient from a mini-batch, such as token embeddings.

Dense Adam updates every row at every step, because a row without a gradient still moves along its decaying first
moment, and the gradient is a dense table of mostly zeros. Here the gradient is sparse (rows). A row without a gradient
for `_IDLE_STEPS` steps is inactive: its first moment has decayed to 0.9^200, which moves no single-precision weight.
When it gets a gradient again, its two moments are first decayed to their values in dense Adam. The weights thus equal
those of dense Adam up to rounding. Where few rows are inactive, as with many texts in a mini-batch, all are updated.

Source of the update: Kingma & Ba 2015, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

EPSILON = 1e-8
"""Default ε, added to the root of the second moment."""

_IDLE_STEPS = 200
_SELECTION_INTERVAL = 64
"""Number of steps between two selections of the active rows."""

_MAX_GATHERED_SHARE = 1 / 4
"""Largest share of active rows that are gathered; with more, updating all rows is faster."""


_TABLES = ("first_moment", "second_moment", "torch_step", "last_gradient_step", "last_update_step", "active_index")
"""Tensors of a state that are stored whole; `gradient` is zero between steps."""

_MOMENT_BUFFERS = ("active_first_moment", "active_second_moment")
"""Buffers whose values last from step to step."""


@dataclass
class _SparseParameterState:
    """State of one parameter: its moments, and its active rows.

    The moments of active rows are gathered into contiguous buffers. The full tables hold those of inactive rows. The
    buffers are allocated once, for the maximal number of active rows.

    Attributes:
        first_moment: of all rows.
        second_moment: of all rows.
        gradient: of all rows; zeros between steps.
        torch_step: number of updates, the counter of torch's function.
        last_gradient_step: for each row, the step of its last gradient.
        last_update_step: for each row, the step to which its moments are up to date.
        active_index: for each row, its index in `active_rows`; -1 for an inactive row.
        active_rows: the active rows; None where all rows are active and nothing is gathered.
        active_first_moment: buffer of the active rows.
        active_second_moment: buffer of the active rows.
        active_weight: buffer of the active rows.
        active_gradient: buffer of the active rows.
        num_steps: number of steps.
    """

    first_moment: Tensor
    second_moment: Tensor
    gradient: Tensor
    torch_step: Tensor
    last_gradient_step: Tensor
    last_update_step: Tensor
    active_index: Tensor
    active_rows: Tensor | None
    active_first_moment: Tensor
    active_second_moment: Tensor
    active_weight: Tensor
    active_gradient: Tensor
    num_steps: int = 0

    @staticmethod
    def before_first_step(parameter: Tensor) -> _SparseParameterState:
        """Return the state before the first step, without active rows."""

        def full(value: int) -> Tensor:
            return torch.full((len(parameter),), value, device=parameter.device)

        def buffer() -> Tensor:
            return parameter.detach().new_empty(max_active, *parameter.shape[1:])

        max_active = int(_MAX_GATHERED_SHARE * len(parameter))
        return _SparseParameterState(
            first_moment=torch.zeros_like(parameter),
            second_moment=torch.zeros_like(parameter),
            gradient=torch.zeros_like(parameter),
            torch_step=torch.zeros((), dtype=torch.float32, device=parameter.device),
            last_gradient_step=full(-_IDLE_STEPS),
            last_update_step=full(0),
            active_index=full(-1),
            active_rows=full(-1)[:0],
            active_first_moment=buffer(),
            active_second_moment=buffer(),
            active_weight=buffer(),
            active_gradient=buffer(),
        )

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the state between two steps as named tensors, for `restore`; buffers are cut to the active rows."""
        counters = {"num_steps": torch.tensor(self.num_steps)}
        tables = {name: getattr(self, name) for name in _TABLES}
        if self.active_rows is None:
            return counters | tables
        buffers = {name: getattr(self, name)[: len(self.active_rows)] for name in _MOMENT_BUFFERS}
        return counters | tables | {"active_rows": self.active_rows} | buffers

    @staticmethod
    def from_state_tensors(parameter: Tensor, tensors: Mapping[str, Tensor]) -> _SparseParameterState:
        """Return the state of `parameter` that `state_tensors` returned."""
        state = _SparseParameterState.before_first_step(parameter)
        state.num_steps = int(tensors["num_steps"])
        for name in _TABLES:
            getattr(state, name).copy_(tensors[name])
        rows = tensors.get("active_rows")
        state.active_rows = None if rows is None else rows.to(parameter.device, copy=True)
        if rows is not None:
            for name in _MOMENT_BUFFERS:
                getattr(state, name)[: len(rows)].copy_(tensors[name])
        return state

    def copy_moments_to_buffers(self, rows: Tensor, start: int) -> None:
        """Copy the moments of `rows` from the full tables into the buffers, from index `start` on."""
        end = start + len(rows)
        torch.index_select(self.first_moment, 0, rows, out=self.active_first_moment[start:end])
        torch.index_select(self.second_moment, 0, rows, out=self.active_second_moment[start:end])

    def copy_moments_to_tables(self, step: int) -> None:
        """Copy the moments of the active rows, up to date at `step`, into the full tables."""
        if self.active_rows is not None:
            count = len(self.active_rows)
            self.first_moment.index_copy_(0, self.active_rows, self.active_first_moment[:count])
            self.second_moment.index_copy_(0, self.active_rows, self.active_second_moment[:count])
            self.last_update_step[self.active_rows] = step


def has_embedding_for_sparse_gradients(network: nn.Module) -> bool:
    """Return whether the network has an embedding with sparse gradients."""
    return any(_supports_sparse_gradient(module) for module in network.modules())


def _supports_sparse_gradient(module: nn.Module) -> bool:
    """Return whether a module is an embedding whose weight is its own parameter and may have a sparse gradient."""
    return isinstance(module, nn.Embedding) and "weight" in module._parameters and not module.scale_grad_by_freq


class SparseRowAdam(torch.optim.Adam):
    """torch's fused Adam, which updates a parameter with a sparse gradient at less cost.

    Args:
        network: its embeddings get sparse gradients.
        learning_rate: of all parameters.
        epsilon: ε, added to the root of the second moment.
    """

    def __init__(self, network: nn.Module, learning_rate: float, epsilon: float = EPSILON) -> None:
        super().__init__(network.parameters(), lr=learning_rate, eps=epsilon, fused=True)
        self._tables: dict[Tensor, _SparseParameterState] = {}
        for module in network.modules():
            if isinstance(module, nn.Embedding) and _supports_sparse_gradient(module):
                module.sparse = True

    def state_dict(self) -> dict[str, Any]:
        """Return the state of torch's Adam, and under `tables` that of each parameter with sparse gradients."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        tables = {
            index: self._tables[parameter].state_tensors()
            for index, parameter in enumerate(parameters)
            if parameter in self._tables
        }
        return {**super().state_dict(), "tables": tables}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "tables"})
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        self._tables = {
            parameters[index]: _SparseParameterState.from_state_tensors(parameters[index].detach(), tensors)
            for index, tensors in state_dict["tables"].items()
        }

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        sparse_updates = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    sparse_updates.append((parameter, parameter.grad.coalesce(), group))
                    parameter.grad = None
        loss = super().step(closure)
        for parameter, gradient, group in sparse_updates:
            if parameter not in self._tables:
                self._tables[parameter] = _SparseParameterState.before_first_step(parameter)
            _update_active_rows(parameter, gradient, self._tables[parameter], group)
        return loss


def _update_active_rows(
    parameter: Tensor, gradient: Tensor, table: _SparseParameterState, group: dict[str, Any]
) -> None:
    """Update a parameter by a sparse gradient of rows: its active rows, or all rows where many are active."""
    rows, values = gradient.indices()[0], gradient.values()
    step, betas = table.num_steps, group["betas"]
    table.num_steps += 1
    table.last_gradient_step[rows] = table.num_steps
    if step % _SELECTION_INTERVAL == 0:
        _select_active_rows(table, step, betas)
    if table.active_rows is None:
        _update_all_rows(parameter, rows, values, table, group)
        return
    new_rows = rows[table.active_index[rows] < 0]
    if len(table.active_rows) + len(new_rows) > len(table.active_first_moment):
        _activate_all_rows(table, step, betas)
        _update_all_rows(parameter, rows, values, table, group)
        return
    active_rows = _activate_rows(new_rows, table, table.active_rows, step, betas)
    count = len(active_rows)
    weight, active_gradient = table.active_weight[:count], table.active_gradient[:count]
    torch.index_select(parameter, 0, active_rows, out=weight)
    active_gradient.zero_().index_add_(0, table.active_index[rows], values)
    first_moment, second_moment = table.active_first_moment[:count], table.active_second_moment[:count]
    _apply_fused_adam(weight, active_gradient, first_moment, second_moment, table.torch_step, group)
    parameter.index_copy_(0, active_rows, weight)


def _update_all_rows(
    parameter: Tensor, rows: Tensor, values: Tensor, table: _SparseParameterState, group: dict[str, Any]
) -> None:
    """Update all rows as dense Adam."""
    gradient = table.gradient.index_add_(0, rows, values)
    _apply_fused_adam(parameter, gradient, table.first_moment, table.second_moment, table.torch_step, group)
    table.gradient.index_fill_(0, rows, 0.0)


def _activate_all_rows(table: _SparseParameterState, step: int, betas: tuple[float, float]) -> None:
    """Make every row active."""
    table.copy_moments_to_tables(step)
    _decay_moments((table.last_update_step < step).nonzero()[:, 0], table, step, betas)
    table.active_rows = None


def _select_active_rows(table: _SparseParameterState, step: int, betas: tuple[float, float]) -> None:
    """Deactivate rows without a recent gradient; keep all rows active where few would be inactive."""
    recent_rows = (table.last_gradient_step > step - _IDLE_STEPS).nonzero()[:, 0]
    if len(recent_rows) > len(table.active_first_moment):
        if table.active_rows is not None:
            _activate_all_rows(table, step, betas)
        return
    if table.active_rows is None:
        table.last_update_step.fill_(step)
    table.copy_moments_to_tables(step)
    _decay_moments(recent_rows[table.last_update_step[recent_rows] < step], table, step, betas)
    table.active_index.fill_(-1)
    table.active_index[recent_rows] = torch.arange(len(recent_rows), device=recent_rows.device)
    table.copy_moments_to_buffers(recent_rows, 0)
    table.active_rows = recent_rows


def _activate_rows(
    rows: Tensor, table: _SparseParameterState, active_rows: Tensor, step: int, betas: tuple[float, float]
) -> Tensor:
    """Add `rows` to the active rows; return all active rows."""
    if len(rows):
        _decay_moments(rows, table, step, betas)
        table.copy_moments_to_buffers(rows, len(active_rows))
        table.active_index[rows] = torch.arange(len(rows), device=rows.device) + len(active_rows)
        active_rows = table.active_rows = torch.cat([active_rows, rows])
    return active_rows


def _decay_moments(rows: Tensor, table: _SparseParameterState, step: int, betas: tuple[float, float]) -> None:
    """Decay the moments of inactive rows to their values after `step`."""
    idle_steps = (step - table.last_update_step[rows]).unsqueeze(1)
    table.first_moment[rows] *= torch.pow(betas[0], idle_steps.double()).to(table.first_moment.dtype)
    table.second_moment[rows] *= torch.pow(betas[1], idle_steps.double()).to(table.second_moment.dtype)
    table.last_update_step[rows] = step


def _apply_fused_adam(
    parameter: Tensor,
    gradient: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    torch_step: Tensor,
    group: dict[str, Any],
) -> None:
    """Update in place by torch's function, which also increments `torch_step`."""
    adam(
        [parameter],
        [gradient],
        [first_moment],
        [second_moment],
        [],
        [torch_step],
        fused=True,
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=0.0,
        eps=group["eps"],
        maximize=False,
    )
