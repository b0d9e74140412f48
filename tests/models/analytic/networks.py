"""Networks with analytic layers, in double precision."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.analytic.layer import NormalizationFromWeights

BEFORE = {"placement": "before", "activation": "relu"}


def build(method: str, name: str = "mlp", shape: tuple[int, ...] = (12,), **options: Any) -> nn.Module:
    """A network of four classes; an mlp has norms before the nonlinearity."""
    options = BEFORE | options if name == "mlp" else options
    return build_model(name, shape, 4, partial(make_norm, method), seed=0, options=options).double()


def analytic_layers(network: nn.Module) -> list[NormalizationFromWeights]:
    """The analytic layers, in the order of construction."""
    return [module for module in network.modules() if isinstance(module, NormalizationFromWeights)]
