"""The differentiable function of the fused kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from bln_search.norms.axes import InputAxes
from bln_search.norms.fused import operators
from bln_search.norms.fused.layout import FusedLayout
from bln_search.norms.fused.terms import FusedTerms
from bln_search.norms.fused.torch_kernels import BatchStatisticIndex


class _FusedNormalization(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, layout: FusedLayout, terms: FusedTerms
    ) -> tuple[Tensor, Tensor, Tensor]:
        layout_numbers, numbers = layout.as_numbers, terms.as_numbers
        batch = None
        if terms.batch_weight is not None:
            batch = operators.batch_statistics(x, terms.history.values, layout_numbers, numbers)
        output, feature = operators.normalize(x, weight, bias, batch, layout_numbers, numbers)
        ctx.save_for_backward(x, weight, batch, feature)
        ctx.numbers = layout_numbers, numbers
        if batch is None:
            batch = x.new_empty(0)
        ctx.mark_non_differentiable(batch, feature)
        return output, batch, feature

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, batch, feature = ctx.saved_tensors
        grad = grad.contiguous()
        sums = operators.gradient_sums(grad, x, weight, batch, feature, *ctx.numbers)
        by_input = None
        if ctx.needs_input_grad[0]:
            by_input = operators.input_gradient(grad, x, weight, batch, feature, sums, *ctx.numbers)
        return by_input, sums[0], sums[1], None, None


def normalize_fused_with_statistics(
    x: Tensor, weight: Tensor, bias: Tensor, layout: FusedLayout, terms: FusedTerms
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize a mini-batch with the statistics of training, in two launches forward and two backward.

    Args:
        x: Of any shape that `layout` divides into (outer, channels, inner).
        weight: γ, (channels,).
        bias: β, (channels,).
        layout: How `x` is divided.
        terms: Weights of the branches, ε and values of earlier steps.

    Returns:
        The output of the shape of `x`; the statistics of the mini-batch branch, see `BatchStatisticIndex` of
        `torch_kernels`, empty without this branch; mean and variance of the feature branch, (2, groups), empty
        without it. Only the output has gradients, to `x`, `weight` and `bias`, of first order.
    """
    result: tuple[Tensor, Tensor, Tensor] = _FusedNormalization.apply(x.contiguous(), weight, bias, layout, terms)  # type: ignore[no-untyped-call]
    return result


def list_recorded_statistics(
    batch: Tensor, feature: Tensor, epsilon: float, shape: torch.Size, axes: InputAxes
) -> list[Tensor]:
    """Return mean, deviation and variance of each branch, in shapes that broadcast against an input.

    Args:
        batch: Statistics of the mini-batch branch, as `normalize_fused_with_statistics` returns them.
        feature: Mean and variance of the feature branch, likewise.
        epsilon: ε under the root of the deviations.
        shape: Of the input.
        axes: Of the input.
    """
    statistics: list[Tensor] = []
    reduced = axes.feature_reduction_axes
    of_examples = tuple(1 if axis in reduced else shape[axis] for axis in range(axes.ndim))
    if batch.numel():
        of_channels = axes.broadcast_shape(batch.shape[1])
        statistics += _triple(batch[: BatchStatisticIndex.CENTRE], epsilon, of_channels)
    if feature.numel():
        statistics += _triple(feature, epsilon, of_examples)
    return statistics


def _triple(mean_and_variance: Tensor, epsilon: float, shape: tuple[int, ...]) -> list[Tensor]:
    mean, variance = mean_and_variance
    return [mean.view(shape), torch.sqrt(variance + epsilon).view(shape), variance.view(shape)]
