"""Several networks of one structure as one network."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from torch import nn

from bln_search.models.activations import SlopedReLU
from bln_search.models.pooling import AveragePool2
from bln_search.models.residual import ResidualBlock
from bln_search.norms import Normalization
from bln_search.norms.methods import import_layer_class
from bln_search.training.stacked.layers import StackedConv2d, StackedLinear, StackedNormalization, StackedResidualBlock
from bln_search.training.stacked.parameters import SharedParameterStack

_WITHOUT_PARAMETERS = (
    nn.AvgPool2d,
    nn.Flatten,
    nn.Identity,
    nn.MaxPool2d,
    nn.ReLU,
    nn.Sigmoid,
    nn.Tanh,
    AveragePool2,
    SlopedReLU,
)
"""Layers that take the channels of several networks as they take those of one."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_stackable(network: nn.Module) -> bool:
    """Return whether `stack_networks` takes networks of this structure."""
    children = [child for module in network.modules() for child in module._modules.values() if child is not None]
    with_state = [child for child in children if not isinstance(child, _WITHOUT_PARAMETERS)]
    return (
        all(_is_stackable_module(module) for module in network.modules())
        and all(parameter.requires_grad for parameter in network.parameters())
        and len(set(with_state)) == len(with_state)  # a layer that is used twice would record twice
    )


def _is_stackable_module(module: nn.Module) -> bool:
    if any(getattr(module, name) for name in _HOOKS):
        return False
    if type(module) is nn.Conv2d:
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, Normalization):
        return module.method.description.is_stackable and type(module) is import_layer_class(module.method)
    declares_it = bool(vars(type(module)).get("stackable", False))
    return declares_it or type(module) in (nn.Sequential, nn.Linear, *_WITHOUT_PARAMETERS)


def stack_networks(networks: Sequence[nn.Module], parameters: SharedParameterStack) -> nn.Module:
    """Return a network that stands for K networks of one structure: inputs (N, K·C, ...), outputs (N, K·classes).

    Args:
        networks: `is_stackable`, and equal but for their parameters, schedules and histories; or one part of each.
        parameters: Of the whole networks.
    """
    first = networks[0]
    if isinstance(first, nn.Linear):
        return StackedLinear(first, parameters)
    if isinstance(first, nn.Conv2d):
        return StackedConv2d(first, parameters)
    if isinstance(first, Normalization):
        return StackedNormalization([part for part in networks if isinstance(part, Normalization)], parameters)
    if isinstance(first, _WITHOUT_PARAMETERS):
        return first
    count = len(networks)
    stacked = StackedResidualBlock.from_block(first, count) if isinstance(first, ResidualBlock) else copy(first)
    stacked._modules = {
        name: None if child is None else stack_networks([part.get_submodule(name) for part in networks], parameters)
        for name, child in first._modules.items()
    }
    return stacked
