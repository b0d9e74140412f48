"""Parameters, buffers and sizes from before a norm that are used after it, and in-place operations."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.nn import functional as F

from tests.evaluation.wirings.building import (
    CLASSES,
    MEAN,
    Wired,
    Wiring,
    behind,
    first_of,
    linear,
    normal,
    stack,
)
from tests.evaluation.wirings.vectors import BRANCHES, IN_PLACE, MIXES


def parameter(*shape):
    return lambda: nn.Parameter(torch.randn(*shape))


def positions_behind(norm):
    return Wired(
        lambda net, x: net.head((net.norm(x) + net.position).tanh().mean(1)),
        norm=norm(6),
        position=nn.Parameter(torch.randn(4, 6)),
        head=nn.Linear(6, CLASSES),
    )


def size_read_before(norm):
    """Reads the number of examples before the norm and uses it after the norm."""
    return Wired(
        lambda net, x: net.head(_reshaped(net.norm(net.first(x)), x.shape[0])),
        first=nn.Linear(7, 6),
        norm=norm(6),
        head=nn.Linear(6, CLASSES),
    )


def _reshaped(y, examples):
    return y.reshape(examples, 2, 3).transpose(1, 2).reshape(examples, 6)


def input_changed_in_place(norm):
    """Changes the input of the norm in place after the norm."""
    return Wired(_input_changed, first=nn.Linear(7, 6), norm=norm(6), head=nn.Linear(12, CLASSES))


def _input_changed(net, x):
    h = net.first(x)
    y = net.norm(h)
    h = F.relu(h, inplace=True)
    return net.head(torch.cat([h, y], 1))


def masked_mixing(norm):
    """Mixes examples, with a masked logit whose size would hide the effect."""
    return Wired(
        lambda net, x: _masked_mixing(net, net.norm(net.first(x))),
        first=nn.Linear(7, 6),
        norm=norm(6),
        head=nn.Linear(6, 6),
    )


def _masked_mixing(net, y):
    return net.head(y - y.mean(0)).masked_fill(torch.arange(6) > 3, -1e9)


def scripted(norm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.script(nn.Tanh())
    return nn.Sequential(nn.Linear(7, 6), norm(6), script, nn.Linear(6, CLASSES))


PARAMETERS = {
    "scale of each layer": Wiring(
        behind(lambda net, y: y + net.scale * net.inner(y), scale=parameter(6), inner=lambda: nn.Linear(6, 6))
    ),
    "scale as long as a mini-batch": Wiring(
        behind(lambda net, y: (y[:, :5] * net.scale).repeat(1, 2)[:, :6], scale=parameter(5))
    ),
    "positions behind": Wiring(positions_behind, inputs="sequences"),
    "indices in a buffer": Wiring(
        behind(lambda net, y: y[:, net.index], index=lambda: torch.tensor([5, 3, 1, 0, 2, 4]))
    ),
    "mask in a buffer": Wiring(
        behind(lambda net, y: y.masked_fill(net.mask, 0.0), mask=lambda: torch.arange(6) % 2 == 0)
    ),
    "matrix in a buffer": Wiring(behind(lambda net, y: y @ net.mixing, mixing=lambda: torch.randn(6, 6))),
    "weight in einsum": Wiring(behind(lambda net, y: torch.einsum("nd,de->ne", y, net.mixing), mixing=parameter(6, 6))),
    "masked logits": Wiring(
        lambda norm: Wired(
            lambda net, x: net.head(net.norm(net.first(x))).masked_fill(torch.arange(6) > 3, -1e9),
            first=nn.Linear(7, 6),
            norm=norm(6),
            head=nn.Linear(6, 6),
        )
    ),
    "masked mixing": Wiring(masked_mixing, one_pass=MIXES, per_layer=MIXES),
    "size read before": Wiring(size_read_before, may_refuse=r"shape|[Ss]ize"),
    "branch on the number of examples": Wiring(
        behind(lambda net, y: y * 2 if y.shape[0] > 40 else y), may_refuse=f"{MIXES}|{BRANCHES}|number of examples"
    ),
    "input changed in place": Wiring(input_changed_in_place, may_refuse=IN_PLACE),
    "scripted module": Wiring(scripted, may_refuse=r"one_pass=False"),
    "norm, lstm, norm": Wiring(
        stack(normal(6), first_of(nn.LSTM, 6, 5), normal(5), MEAN, linear(5, CLASSES)), inputs="sequences"
    ),
}
