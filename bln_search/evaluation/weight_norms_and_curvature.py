"""Geometry of training: norms of the weights, their effective learning rate, and the curvature of the output."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from bln_search.core.records import LayerWeightNormAndCurvature
from bln_search.evaluation.fisher import compute_directional_fisher_curvature, use_training_mode_in_norms_only
from bln_search.norms import Normalization

_DIRECTIONS = 4
"""Number of random directions for the mean curvature of a layer."""


def measure_weight_norms_and_curvature(
    network: nn.Module, inputs: Tensor, *, epoch: int, learning_rate: float, seed: int
) -> tuple[LayerWeightNormAndCurvature, ...]:
    """Measure the geometry of every dense and convolutional layer; the network is left as it was.

    The curvature is that of `compute_directional_fisher_curvature`. Its mean over the directions of the weights is the
    trace of the layer's block of the Fisher matrix divided by the number of its weights. It is estimated from random
    normal directions.

    Args:
        network: a classifier.
        inputs: one mini-batch of training examples, (N, ...).
        epoch: of the weights, for the record.
        learning_rate: of the last training step.
        seed: of the random directions.

    Source: Ba, Kiros & Hinton 2016, section 5.2.
    """
    layers = _dense_and_convolution_layers(network)
    norms = _following_norms_with_deviations(network, layers, inputs)
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        _measure_layer(network, inputs, name, norms.get(name), (epoch, learning_rate), generator) for name in layers
    )


def _dense_and_convolution_layers(network: nn.Module) -> dict[str, nn.Module]:
    return {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear | _ConvNd)}


def _measure_layer(
    network: nn.Module,
    inputs: Tensor,
    name: str,
    norm: tuple[str, Tensor] | None,
    training: tuple[int, float],
    generator: torch.Generator,
) -> LayerWeightNormAndCurvature:
    epoch, learning_rate = training
    weight = network.get_parameter(f"{name}.weight").detach()
    squared_norms = weight.flatten(1).square().sum(1)
    scale = float(squared_norms.sum().sqrt())
    radial = (
        None
        if scale == 0
        else compute_directional_fisher_curvature(network, inputs, {f"{name}.weight": weight / scale})
    )
    gain = deviation = None
    if norm is not None:
        norm_name, deviations = norm
        deviation = float(deviations.square().mean().sqrt())
        if network.get_submodule(norm_name).weight is not None:
            gain = _mean_curvature(network, inputs, f"{norm_name}.weight", generator)
    return LayerWeightNormAndCurvature(
        epoch=epoch,
        layer=name,
        weight_norm=float(squared_norms.mean().sqrt()),
        effective_rate=_finite_or_none(float((learning_rate / squared_norms).mean())),
        deviation=deviation,
        curvature=_mean_curvature(network, inputs, f"{name}.weight", generator),
        radial_curvature=radial,
        gain_curvature=gain,
    )


def _mean_curvature(network: nn.Module, inputs: Tensor, name: str, generator: torch.Generator) -> float | None:
    """Return the mean curvature over the directions of a parameter: E[vᵀFv] for v of independent N(0, 1/n)."""
    parameter = network.get_parameter(name)
    total = 0.0
    for _ in range(_DIRECTIONS):
        direction = torch.randn(parameter.shape, generator=generator).to(parameter) / math.sqrt(parameter.numel())
        total += compute_directional_fisher_curvature(network, inputs, {name: direction})
    return _finite_or_none(total / _DIRECTIONS)


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _following_norms_with_deviations(
    network: nn.Module, layers: Mapping[str, nn.Module], inputs: Tensor
) -> dict[str, tuple[str, Tensor]]:
    """Return the normalization layer that reads the output of each layer, by name, and the deviations it computes.

    Deviations of the mini-batch where the method has them, else of the features. A layer whose output no normalization
    layer reads directly has no entry.
    """
    outputs: list[tuple[str, Tensor]] = []
    found: dict[str, tuple[str, Tensor]] = {}

    def remember_output_of_layer(name: str, output: Tensor) -> None:
        outputs.append((name, output))

    def match_norm_to_layer(norm_name: str, norm: Normalization, x: Tensor) -> None:
        source = next((name for name, output in reversed(outputs) if output is x), None)
        if source is not None and norm.method.statistics:
            axes = norm.input_axes(x.ndim)
            reduced = axes.batch_reduction_axes if norm.has_batch_statistics else axes.feature_reduction_axes
            found[source] = norm_name, x.detach().std(reduced, correction=0)

    handles = [
        layer.register_forward_hook(lambda _, __, output, name=name: remember_output_of_layer(name, output))
        for name, layer in layers.items()
    ]
    handles += [
        norm.register_forward_pre_hook(lambda norm, args, name=name: match_norm_to_layer(name, norm, args[0]))
        for name, norm in network.named_modules()
        if isinstance(norm, Normalization)
    ]
    try:
        with use_training_mode_in_norms_only(network), torch.no_grad():
            network(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
