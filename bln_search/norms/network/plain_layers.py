"""Layers of torch alone that compute what a configured layer computes in evaluation mode.

A layer that uses population values only is one affine step y = x·scale + shift (`folding`). `nn.BatchNorm` computes it
in evaluation mode, with running mean E_B, running variance Std_B² − ε, and

    γ' = scale·Std_B,    β' = shift + scale·E_B,

which are γ and β where the layer is BN. LN of the statistics of each example is `nn.LayerNorm`, over the whole layer
`nn.GroupNorm` with one group.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bln_search.core.method import Method, Statistic, StatisticSource
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.folding import find_folding_obstacle, fold_in_double
from bln_search.norms.network.layer_calls import observe_layer_calls
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.normalization import Normalization

_BATCH_NORMS: dict[int, type[nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d]] = {
    2: nn.BatchNorm1d,
    3: nn.BatchNorm1d,
    4: nn.BatchNorm2d,
    5: nn.BatchNorm3d,
}
"""By the number of axes of the input."""


def copy_with_plain_layers(network: nn.Module, run: Callable[[nn.Module], object]) -> nn.Module | None:
    """Return a copy of `network` with layers of torch in place of its normalization layers, in evaluation mode.

    Args:
        network: A configured network in evaluation mode.
        run: Runs a network on example inputs, which show the shapes of the inputs of layers.

    Returns:
        The copy; None if torch has no such layer, or another module of the network is one of bln-search.
    """
    plain = copy_network(network)
    layers = get_norms_by_name(plain)
    shapes: dict[nn.Module, torch.Size] = {}
    with torch.no_grad(), observe_layer_calls(layers.values(), lambda layer, x: shapes.update({layer: x.shape})):
        run(plain)
    for name, layer in layers.items():
        replacement = make_plain_layer(layer, shapes[layer]) if layer in shapes else None
        if replacement is None:
            return None
        if not name:
            return replacement.eval()
        parent, _, attribute = name.rpartition(".")
        setattr(plain.get_submodule(parent), attribute, replacement)
    is_own = any(type(module).__module__.partition(".")[0] == "bln_search" for module in plain.modules())
    return None if is_own else plain.eval()


def make_plain_layer(layer: Normalization, shape: torch.Size) -> nn.Module | None:
    """Return the layer of torch that computes what `layer` computes for inputs of this shape; None without one."""
    if layer.method is Method.LN and all(
        layer.configuration.source_of(statistic) is StatisticSource.MINI_BATCH for statistic in layer.method.statistics
    ):
        return _make_layer_norm(layer, shape)
    is_channels_first = layer.input_axes(len(shape)).feature == 1 and len(shape) in _BATCH_NORMS
    if not is_channels_first or not layer.method.statistics or find_folding_obstacle(layer) is not None:
        return None
    return _make_batch_norm(layer, len(shape))


def _make_layer_norm(layer: Normalization, shape: torch.Size) -> nn.Module | None:
    axes, epsilon = layer.input_axes(len(shape)), layer.formula_variant.epsilon
    plain: nn.LayerNorm | nn.GroupNorm
    if axes.feature_reduction_axes == (len(shape) - 1,):
        plain = nn.LayerNorm(layer.num_features, eps=epsilon)
    elif len(axes.feature_reduction_axes) < len(shape) - 1:
        return None
    elif layer.has_parameters_of_units:
        plain = nn.LayerNorm(list(shape[1:]), eps=epsilon)
    elif axes.feature == 1:
        plain = nn.GroupNorm(1, layer.num_features, eps=epsilon)
    else:
        return None
    return _with_values(plain, layer.weight.dtype, weight=layer.weight, bias=layer.bias)


def _make_batch_norm(layer: Normalization, ndim: int) -> nn.Module | None:
    scale, shift = (value.flatten() for value in fold_in_double(layer))
    if scale.numel() != layer.num_features:
        return None
    epsilon = layer.formula_variant.epsilon
    mean, variance = torch.zeros_like(scale), torch.full_like(scale, 1 - epsilon)
    if layer.has_batch_statistics:
        mean = _read_in_double(layer, Statistic.BATCH_MEAN).expand_as(scale)
        variance = (_read_in_double(layer, Statistic.BATCH_DEVIATION).expand_as(scale).square() - epsilon).clamp(min=0)
    return _with_values(
        _BATCH_NORMS[ndim](layer.num_features, eps=epsilon),
        layer.weight.dtype,
        weight=scale * torch.sqrt(variance + epsilon),
        bias=shift + scale * mean,
        running_mean=mean,
        running_var=variance,
    )


def _read_in_double(layer: Normalization, statistic: Statistic) -> Tensor:
    value = layer.find_configured_value(statistic)
    assert value is not None
    return value.detach().double().flatten()


def _with_values(plain: nn.Module, dtype: torch.dtype, **values: Tensor) -> nn.Module:
    """Return the layer with these parameters and buffers, in a floating-point type."""
    plain.to(dtype)
    with torch.no_grad():
        for name, value in values.items():
            getattr(plain, name).copy_(value)
    return plain
