"""Population values of trained BN and BLN layers from the weights of the network alone, without data."""

from __future__ import annotations

import torch
from torch import Tensor, fx, nn

from bln_search.core.errors import ModelError
from bln_search.core.method import StatisticSource
from bln_search.models.analytic.graph import (
    collect_needed_nodes,
    find_called_module,
    shape_with_one_value_per_channel,
    trace_with_shapes,
)
from bln_search.models.analytic.node_rules import get_moment_rule
from bln_search.norms import Normalization
from bln_search.norms.analytic.moment_rules import pool_moments_over_positions
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.statistics import StatisticMoments

_ADVICE = "leave out the values from the weights"


@torch.no_grad()
def estimate_from_weights(
    network: nn.Module, example: Tensor, input_moments: tuple[Tensor, Tensor] | None = None
) -> dict[str, LayerMoments]:
    """Compute the statistics of each BN or BLN layer by propagating mean and variance from the network's input.

    Each layer normalizes by its own values from the weights. Values of different units are taken as uncorrelated and
    normal: this holds about at initialization; training correlates them, and then the deviations are too small.

    Args:
        network: With one input; it is not changed.
        example: An input (N, ...) of the network; its values do not matter.
        input_moments: Mean and variance of an example, both of its shape without N; by default 0 and 1.

    Returns:
        Moments of each layer by name: the population estimate `analytic`, which the letter `A` reads. The feature
        statistics of BLN are E_F = mean_c μ_c and Std_F² = mean_c(σ_c² + μ_c²) − E_F² − Σ_c σ_c²/C².

    Raises:
        ModelError: The network cannot be traced, has an operation without a rule in front of a normalization layer, a
            layer of another method, or one that is called twice; or the moments are not of the inputs' shape, not
            finite, or a variance is negative. The message names it.

    Example:
        moments = bln_search.estimate_from_weights(model, inputs, (inputs.mean(0), inputs.var(0)))
        bln_search.evaluate_configurations(model, train_loader, validation_loader, gathered={"analytic": moments})

    Source: Shekhovtsov & Flach 2018, Eq. 3-6.
    """
    graph = trace_with_shapes(network, example, advice=_ADVICE)
    layers = _norms_by_calling_node(graph, network)
    needed = collect_needed_nodes(layers, lambda _: False)
    values: dict[fx.Node, MeanVariance] = {}
    moments: dict[str, LayerMoments] = {}
    for node in graph.nodes:
        if node not in needed:
            continue
        arguments = [values[argument] for argument in node.all_input_nodes]
        if node in layers and not layers[node].method.statistics:
            values[node] = arguments[0]
        elif node in layers:
            value = MeanVariance(*(part.double().unsqueeze(0) for part in arguments[0]))
            moments[str(node.target)] = _compute_layer_moments(layers[node], value, node.meta["shape"], len(example))
            values[node] = _propagate_through_normalization(layers[node], value, moments[str(node.target)])
        elif node.op == "placeholder":
            values[node] = _network_input_moments(network, node, input_moments)
        else:
            values[node] = get_moment_rule(node, network, advice=_ADVICE)(arguments, training=False)
    return moments


def _norms_by_calling_node(graph: fx.Graph, network: nn.Module) -> dict[fx.Node, Normalization]:
    """Return the normalization layer of each node that calls one. Raises ModelError for one without such values."""
    layers: dict[fx.Node, Normalization] = {}
    for node in graph.nodes:
        layer = find_called_module(node, network)
        if not isinstance(layer, Normalization):
            continue
        if layer.method.statistics and StatisticSource.ANALYTIC not in layer.method.optional_sources:
            raise ModelError(
                f"{node.target} is a {layer.method} layer: values from the weights are for bn and bln layers"
            )
        if layer in layers.values():
            raise ModelError(
                f"{node.target} is called twice, so it has no single value from the weights: use two layers"
            )
        layers[node] = layer
    return layers


def _network_input_moments(network: nn.Module, node: fx.Node, moments: tuple[Tensor, Tensor] | None) -> MeanVariance:
    """Return the moments of an example, by default mean 0 and variance 1, with the network's dtype and device."""
    like = next(layer.weight for layer in network.modules() if isinstance(layer, Normalization))
    shape = shape_with_one_value_per_channel(node.meta["shape"])
    if moments is not None:
        _check_input_moments(moments, tuple(node.meta["shape"]))
        return MeanVariance(*(part.to(like.device, like.dtype) for part in moments))
    return MeanVariance(like.new_zeros(shape), like.new_ones(shape))


def _check_input_moments(moments: tuple[Tensor, Tensor], shape: tuple[int, ...]) -> None:
    """Raise ModelError unless mean and variance are finite and broadcast to the shape of an example."""
    if len(moments) != 2 or not all(isinstance(value, Tensor) for value in moments):
        raise ModelError("input_moments is a pair of tensors: (inputs.mean(0), inputs.var(0))")
    for name, value in zip(("mean", "variance"), moments, strict=True):
        if value.ndim != len(shape) or any(
            have not in (1, want) for have, want in zip(value.shape, shape, strict=True)
        ):
            raise ModelError(f"the {name} of the inputs has shape {tuple(value.shape)}, an example {shape}")
        if not bool(value.isfinite().all()):
            raise ModelError(f"the {name} of the inputs is not finite: leave out inputs with NaN or infinite values")
        if name == "variance" and bool((value < 0).any()):
            raise ModelError("the variance of the inputs is negative: give (inputs.mean(0), inputs.var(0))")


def _compute_layer_moments(
    layer: Normalization, unexpanded: MeanVariance, shape: tuple[int, ...], batch_size: int
) -> LayerMoments:
    """Return the moments of a layer whose input of `shape`, without N, has mean and variance `unexpanded`."""
    value = MeanVariance(*(part.expand(1, *shape) for part in unexpanded))
    axes = layer.input_axes(value.mean.ndim)
    mean = value.mean.mean(axes.batch_reduction_axes, keepdim=True)
    between = (value.mean - mean).square().mean(axes.batch_reduction_axes, keepdim=True)
    batch = _moments_of_constant_statistics(
        layer, mean, value.variance.mean(axes.batch_reduction_axes, keepdim=True) + between
    )
    feature = _feature_moments(layer, value) if layer.has_feature_statistics else None
    return LayerMoments(batch, feature, layer.batch_size or batch_size, 1)


def _feature_moments(layer: Normalization, value: MeanVariance) -> StatisticMoments:
    """Return the moments of the statistics over the features of one example, pooled over positions."""
    axes = layer.input_axes(value.mean.ndim)
    reduced = axes.feature_reduction_axes
    count = value.mean[0].numel() // value.mean.mean(reduced).numel()
    mean = value.mean.mean(reduced, keepdim=True)
    second = (value.variance + value.mean.square()).mean(reduced, keepdim=True)
    variance = second - mean.square() - value.variance.mean(reduced, keepdim=True) / count
    pooled = [part.mean(axes.population_pooling_axes, keepdim=True) for part in (mean, variance)]
    return _moments_of_constant_statistics(layer, *pooled)


def _moments_of_constant_statistics(layer: Normalization, mean: Tensor, variance: Tensor) -> StatisticMoments:
    deviation = torch.sqrt(variance + layer.formula_variant.epsilon)
    return StatisticMoments(mean, torch.zeros_like(mean), deviation, variance)


def _propagate_through_normalization(layer: Normalization, value: MeanVariance, moments: LayerMoments) -> MeanVariance:
    """Return mean and variance of the layer's output, γ·Σ w·(x − E)/Std + β over its pairs of statistics.

    Of each feature, pooled over positions: the operations behind the layer move and select positions.
    """
    centred, slope = torch.zeros_like(value.mean), torch.zeros_like(value.mean)
    weights = layer.branch_weights(moments.batch_size)
    for weight, pair in zip(weights, (moments.batch, moments.feature), strict=True):
        if pair is not None:
            centred = centred + weight * (value.mean - pair.mean) / pair.deviation
            slope = slope + weight / pair.deviation
    shape = layer.broadcast_parameter_shape(value.mean.ndim)
    gain, bias = layer.weight.double().view(shape), layer.bias.double().view(shape)
    mean, variance = gain * centred + bias, (gain * slope).square() * value.variance
    output = MeanVariance(*(part[0].to(layer.weight.dtype) for part in (mean, variance)))
    return pool_moments_over_positions(output, layer.input_axes(value.mean.ndim).feature - 1)
