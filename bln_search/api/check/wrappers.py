"""Networks inside of wrappers: averages of weights, compiled networks, data parallelism."""

from __future__ import annotations

from torch import nn

from bln_search.api.check.layers import find_statistics_layers

_AVERAGES = frozenset({"AveragedModel", "ModelEmaV2", "ModelEmaV3", "ModelEma", "ModelEMA", "ExponentialMovingAverage"})
"""Classes of wrappers whose network has averaged weights, by name: of torch, timm and their relatives."""

_INNER = ("_orig_mod", "module", "ema")
"""Attributes with the network of a wrapper."""


def unwrap_network(network: nn.Module) -> tuple[nn.Module, bool]:
    """The network inside of wrappers, and whether one of them averages weights."""
    is_average = False
    while (inner := _find_inner(network)) is not None:
        is_average = is_average or type(network).__name__ in _AVERAGES
        network = inner
    if "" in find_statistics_layers(network):  # the network is one layer: give it a name
        network = nn.Sequential(network).train(network.training)
    return network, is_average


def _find_inner(network: nn.Module) -> nn.Module | None:
    """The network of a wrapper; None for a network of its own, which may have a part of such a name."""
    name = type(network).__name__
    is_wrapper = name in _AVERAGES or name in {"OptimizedModule", "DataParallel", "DistributedDataParallel"}
    if not is_wrapper:
        return None
    return next((inner for key in _INNER if isinstance(inner := getattr(network, key, None), nn.Module)), None)
