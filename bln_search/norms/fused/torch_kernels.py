"""The fused kernels in torch: for CPUs, double precision, and as the reference of the Triton kernels.

One branch is w·(x − E)·R with R = 1/√(V + ε). In the mini-batch branch of a channel E and V are mixtures with a memory
(`norms.mixture`), whose share is zero without a memory; an unbiased variance of the mini-batch has a factor. BRN
multiplies this branch by r and adds d.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from bln_search.norms.fused.layout import FusedLayout
from bln_search.norms.fused.terms import FusedTerms, HistoryKind
from bln_search.norms.mixture import mix_means, mix_variances


class BatchStatisticIndex(IntEnum):
    """Rows of the statistics of the mini-batch branch, (7, C).

    Members:
        MEAN: μ.
        VARIANCE: v, divided by the number of values.
        CENTRE: E.
        RECIPROCAL: R.
        FACTOR: r, 1 without moving averages.
        OFFSET: d, 0 without moving averages.
        SLOPE: ∂V/∂μ, 0 without a memory.
    """

    MEAN = 0
    VARIANCE = 1
    CENTRE = 2
    RECIPROCAL = 3
    FACTOR = 4
    OFFSET = 5
    SLOPE = 6


def compute_batch_statistics(x: Tensor, layout: FusedLayout, terms: FusedTerms) -> Tensor:
    """Return the statistics of the mini-batch branch, see `BatchStatisticIndex`."""
    values, history = x.view(layout.shape), terms.history
    mean = values.mean((0, 2))
    variance = (values - mean.view(-1, 1)).square().mean((0, 2))
    centre, total = mean, terms.variance_factor * variance
    factor, offset, slope = torch.ones_like(mean), torch.zeros_like(mean), torch.zeros_like(mean)
    if history.kind is HistoryKind.MEMORY:
        assert history.values is not None
        memory_mean, memory_variance = history.values
        distance = mean - memory_mean if history.between_variance else None
        centre = mix_means(mean, memory_mean, history.share)
        total = mix_variances(total, memory_variance, history.share, distance)
        if distance is not None:
            slope = 2 * history.share * (1 - history.share) * distance
    reciprocal = 1 / torch.sqrt(total + terms.epsilon)
    if history.kind is HistoryKind.AVERAGES:
        assert history.values is not None
        average_mean, average_deviation = history.values
        factor = (1 / (reciprocal * average_deviation)).clamp(1 / history.r_max, history.r_max)
        offset = ((mean - average_mean) / average_deviation).clamp(-history.d_max, history.d_max)
    return torch.stack([mean, variance, centre, reciprocal, factor, offset, slope])


def normalize(
    x: Tensor, weight: Tensor, bias: Tensor, batch: Tensor | None, layout: FusedLayout, terms: FusedTerms
) -> tuple[Tensor, Tensor]:
    """Return the output, of the shape of `x`, and mean and variance of the feature branch, (2, groups)."""
    values = x.view(layout.shape)
    total, feature = torch.zeros_like(values), x.new_empty(2, 0)
    if batch is not None and terms.batch_weight is not None:
        total = total + terms.batch_weight * _corrected_batch_branch(values, batch)
    if terms.feature_weight is not None:
        axes = (1, 2) if layout.whole_layer else (1,)
        mean = values.mean(axes, keepdim=True)
        variance = (values - mean).square().mean(axes, keepdim=True)
        feature = torch.stack([mean.flatten(), variance.flatten()])
        total = total + terms.feature_weight * _normalized_features(values, feature, layout, terms)[0]
    return torch.addcmul(bias.view(-1, 1), total, weight.view(-1, 1)).view_as(x), feature


def compute_gradient_sums(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch: Tensor | None,
    feature: Tensor,
    layout: FusedLayout,
    terms: FusedTerms,
) -> Tensor:
    """Return ∂L/∂γ, ∂L/∂β, and ∂L/∂μ / n and 2·∂L/∂v / n of the mini-batch branch, (4, C); n values of a channel."""
    grads, values = grad.view(layout.shape), x.view(layout.shape)
    sum_of_grads = grads.sum((0, 2))
    sums = torch.zeros(4, layout.channels, dtype=x.dtype, device=x.device)
    sums[1] = sum_of_grads
    if batch is not None and terms.batch_weight is not None:
        normalized = (grads * _normalized_batch(values, batch)).sum((0, 2))
        factor, offset = batch[BatchStatisticIndex.FACTOR], batch[BatchStatisticIndex.OFFSET]
        sums[0] += terms.batch_weight * (factor * normalized + offset * sum_of_grads)
        scale = terms.batch_weight * weight * factor * batch[BatchStatisticIndex.RECIPROCAL]
        by_centre, by_total = -scale * sum_of_grads, -0.5 * scale * batch[BatchStatisticIndex.RECIPROCAL] * normalized
        count = layout.num_values_of_channel
        sums[2] = ((1 - terms.history.share) * by_centre + batch[BatchStatisticIndex.SLOPE] * by_total) / count
        sums[3] = 2 * terms.own_variance_factor * by_total / count
    if terms.feature_weight is not None:
        normalized_features = _normalized_features(values, feature, layout, terms)[0]
        sums[0] += terms.feature_weight * (grads * normalized_features).sum((0, 2))
    return sums


def compute_input_gradient(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch: Tensor | None,
    feature: Tensor,
    sums: Tensor,
    layout: FusedLayout,
    terms: FusedTerms,
) -> Tensor:
    """Return ∂L/∂x, of the shape of `x`."""
    scaled, values = grad.view(layout.shape) * weight.view(-1, 1), x.view(layout.shape)
    result = torch.zeros_like(values)
    if batch is not None and terms.batch_weight is not None:
        scale = terms.batch_weight * batch[BatchStatisticIndex.FACTOR] * batch[BatchStatisticIndex.RECIPROCAL]
        centred = values - batch[BatchStatisticIndex.MEAN].view(-1, 1)
        result = scaled * scale.view(-1, 1) + sums[2].view(-1, 1) + sums[3].view(-1, 1) * centred
    if terms.feature_weight is not None:
        normalized, reciprocal = _normalized_features(values, feature, layout, terms)
        axes = (1, 2) if layout.whole_layer else (1,)
        mean = scaled.mean(axes, keepdim=True)
        product = (scaled * normalized).mean(axes, keepdim=True)
        result = result + terms.feature_weight * reciprocal * (scaled - mean - normalized * product)
    return result.view_as(x)


def _normalized_batch(values: Tensor, batch: Tensor) -> Tensor:
    """Return (x − E)·R of the mini-batch branch."""
    return (values - batch[BatchStatisticIndex.CENTRE].view(-1, 1)) * batch[BatchStatisticIndex.RECIPROCAL].view(-1, 1)


def _corrected_batch_branch(values: Tensor, batch: Tensor) -> Tensor:
    """Return r·(x − E)·R + d of the mini-batch branch."""
    factor, offset = batch[BatchStatisticIndex.FACTOR].view(-1, 1), batch[BatchStatisticIndex.OFFSET].view(-1, 1)
    return factor * _normalized_batch(values, batch) + offset


def _normalized_features(
    values: Tensor, feature: Tensor, layout: FusedLayout, terms: FusedTerms
) -> tuple[Tensor, Tensor]:
    """Return (x − E)·R of the feature branch, and R."""
    mean, variance = (row.view(layout.group_shape) for row in feature)
    reciprocal = 1 / torch.sqrt(variance + terms.epsilon)
    return (values - mean) * reciprocal, reciprocal
