"""γ and β with which a normalization layer does not change the function of a network."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.norms import Normalization
from bln_search.norms.analytic.layer import NormalizationFromWeights
from bln_search.norms.no_normalization import NoNormalization
from bln_search.norms.statistics import mean_and_centred_and_variance


def set_affine_to_preserve_input_plus_shift(
    layer: Normalization, x: Tensor, shift: Tensor | None, *, preserve_function: bool
) -> Tensor:
    """Set γ and β of a layer so that it computes x + shift; return x + shift.

    With y = γ·(x − E)/Std + β these are γ = Std and β = E + shift; without normalization β = shift.

    Args:
        layer: the layer; it does not normalize.
        x: its input (N, ...) for a mini-batch.
        shift: (d,), the bias that the layer in front does not have; None where it has one.
        preserve_function: otherwise γ and β stay as they are, as normalization removes the shift.

    Raises:
        ModelError: no γ and β preserve the function.
    """
    output = x if shift is None else x + shift.view(layer.input_axes(x.ndim).broadcast_shape(layer.num_features))
    if isinstance(layer, NoNormalization):
        if layer.bias is None:
            return (
                output
                if shift is None
                else _raise_not_preservable("the layer in front has no bias, and neither has this one")
            )
        if shift is None:
            return x + layer.bias.view(layer.input_axes(x.ndim).broadcast_shape(layer.num_features))
        layer.bias.copy_(shift)
    elif preserve_function:
        mean, deviation = _mean_and_deviation_in_training(layer, x)
        if mean.numel() != layer.weight.numel():
            _raise_not_preservable(
                f"it has {mean.numel()} means and {layer.weight.numel()} gains: set preserve_function to false"
            )
        layer.weight.copy_(deviation.view_as(layer.weight))
        layer.bias.copy_(mean.view_as(layer.bias))
        if shift is not None:
            layer.bias.add_(shift)
    return output


def _mean_and_deviation_in_training(layer: Normalization, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation by which the layer normalizes `x` at the first step of training."""
    if isinstance(layer, NormalizationFromWeights):
        mean, variance = layer.input_moments_from_weights()
        return mean, torch.sqrt(variance + layer.formula_variant.epsilon)
    if layer.has_feature_statistics:
        _raise_not_preservable(
            "it has a mean and a deviation of each example: set preserve_function to false, or use bn"
        )
    axes = layer.input_axes(x.ndim).batch_reduction_axes
    mean, _, variance = mean_and_centred_and_variance(x, axes)
    return mean, layer.formula_variant.compute_batch_deviation(variance, prod(x.shape[axis] for axis in axes))


def _raise_not_preservable(reason: str) -> Tensor:
    raise ModelError(reason)
