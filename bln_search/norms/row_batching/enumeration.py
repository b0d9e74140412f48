"""Computation of a normalization layer under all rows of a plan at once."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from bln_search.norms.base import NormalizationBase
from bln_search.norms.row_batching.dense_sum import DenseSum
from bln_search.norms.row_batching.factored_sum import FactoredSum
from bln_search.norms.row_batching.row_sources import Blends, LayerSources, PairSources, resolve_sources
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    LazyRowTensor,
    RowBatchedTensor,
    RowBatchingError,
    tag_rows,
    untag,
)
from bln_search.norms.row_batching.scale_offset_variants import BatchMoments, ScaleOffsetVariants


def normalize_all_rows(layer: NormalizationBase, x: RowBatchedTensor) -> RowBatchedTensor:
    """Return the layer's output under all rows: expanded from one common input, or each row from its own input."""
    layer.check_input(x)
    axes = layer.axes(x.ndim)
    _check_layout(x)
    sources = x.batch_layout.plan.layer_sources.get(layer)
    if sources is None:
        sources = x.batch_layout.plan.layer_sources[layer] = resolve_sources(layer, x.batch_layout.plan, x)
    is_factored = axes.feature in axes.feature_reduction_axes
    if x.copies == 1 and is_factored:
        return LazyRowTensor.of(_normalize_shared_input(layer, untag(x), x.batch_layout, sources), x.batch_layout)
    copies = len(x.batch_layout.plan.rows)
    repeated = untag(x).repeat(copies // x.copies, *[1] * (x.ndim - 1))
    return tag_rows(_normalize_each_row(layer, repeated, x.batch_layout, sources), x.batch_layout, copies)


def _check_layout(x: RowBatchedTensor) -> None:
    expected = x.copies * x.batch_layout.examples_per_row
    if x.shape[0] != expected:
        raise RowBatchingError(
            f"a normalization layer got {x.shape[0]} examples instead of {expected}: a layer before it moved or merged "
            "the first axis"
        )


def _normalize_each_row(layer: NormalizationBase, x: Tensor, layout: BatchLayout, sources: LayerSources) -> Tensor:
    """Normalize each row from its own input (K·G·N, ...), each branch as (x − E)·r with the mean E of the row."""
    axes = layer.axes(x.ndim)
    rows = x.reshape(-1, layout.groups, layout.size, *x.shape[1:])
    shape = layer.parameter_shape(x.ndim)
    gamma, beta = layer.weight.view(shape), layer.bias.view(shape)
    batch_weight, feature_weight = layer.branch_weights(layer.batch_size or layout.size)
    total: Tensor | None = None
    if sources.batch is not None:
        batch_axes = tuple(axis + 2 for axis in axes.batch_reduction_axes)
        centred, deviation = _centred_and_deviation(layer, rows, batch_axes, sources.batch)
        total = torch.addcmul(beta, centred, gamma * (batch_weight / deviation))
    if sources.feature is not None:
        feature_axes = tuple(axis + 2 for axis in axes.feature_reduction_axes)
        centred, deviation = _centred_and_deviation(layer, rows, feature_axes, sources.feature)
        branch = centred.mul_(feature_weight / deviation)
        total = torch.addcmul(beta, branch, gamma) if total is None else total.addcmul_(branch, gamma)
    assert total is not None
    return total.reshape(x.shape)


def _centred_and_deviation(
    layer: NormalizationBase, rows: Tensor, axes: tuple[int, ...], pair: PairSources
) -> tuple[Tensor, Tensor]:
    """Return x less the mean of each row, and the deviation of each row."""
    batch_mean = rows.mean(axes, keepdim=True)
    mean = batch_mean
    if pair.mean is not None and pair.mean_from_population is not None:
        mean = torch.where(pair.mean_from_population, _cut_to_slots(pair.mean, rows), batch_mean)
        _blend_in_place(mean, batch_mean, pair.blended_means, rows.shape[2])
    centre = mean if layer.formula_variant.around_selected_mean else batch_mean
    centred = rows - centre
    variance = (centred * centred).mean(axes, keepdim=True)
    if centre is not mean:
        torch.sub(rows, mean, out=centred)
    deviation = layer.formula_variant.batch_deviation(variance, prod(rows.shape[axis] for axis in axes))
    if pair.deviation is not None and pair.deviation_from_population is not None:
        batch_variance = deviation.square() if pair.blended_deviations else deviation
        deviation = torch.where(pair.deviation_from_population, _cut_to_slots(pair.deviation, rows), deviation)
        _blend_in_place(deviation, batch_variance, pair.blended_deviations, rows.shape[2], squared=True)
    return centred, deviation


def _blend_in_place(
    population: Tensor, batch: Tensor, blends: Blends, batch_size: int, *, squared: bool = False
) -> None:
    """Replace the population values (rows, G, ...) of some rows by blends with the values of the mini-batch, in place.

    Args:
        population: means or deviations; of rows without a blend too.
        batch: means of the mini-batch, or variances (with ε) where `squared`.
        blends: weights of the population by the index of the row.
        batch_size: number of examples in a mini-batch.
        squared: `population` has deviations, whose squares are blended.
    """
    for row, blend in blends.items():
        value = population[row].square() if squared else population[row]
        value = torch.lerp(batch[row].expand_as(value), value, blend.weight(batch_size))
        population[row] = value.sqrt() if squared else value


def _cut_to_slots(value: Tensor, rows: Tensor) -> Tensor:
    """Return a population value (row, 1, slot, ...) cut to the size of the mini-batch."""
    return value if value.shape[2] == 1 else value[:, :, : rows.shape[2]]


def _normalize_shared_input(
    layer: NormalizationBase, x: Tensor, layout: BatchLayout, sources: LayerSources
) -> FactoredSum | DenseSum:
    """Return the outputs of all rows from one input (G·N, ...), as a sum of few tensors."""
    axes = layer.axes(x.ndim)
    groups = x.reshape(layout.groups, layout.size, *x.shape[1:])
    if x.ndim == 2 and axes.feature == 1:
        return DenseSum(layer, groups, sources, len(layout.plan.rows))
    batch_weight, feature_weight = layer.branch_weights(layer.batch_size or layout.size)
    batch = feature = None
    row_batch = row_feature = [0] * len(layout.plan.rows)
    if sources.batch is not None:
        moments = BatchMoments.of(groups, tuple(axis + 1 for axis in axes.batch_reduction_axes))
        batch = ScaleOffsetVariants(layer.formula_variant, moments, sources.batch, batch_weight)
        row_batch = batch.row_variant
    if sources.feature is not None:
        moments = BatchMoments.of(groups, tuple(axis + 1 for axis in axes.feature_reduction_axes))
        feature = ScaleOffsetVariants(layer.formula_variant, moments, sources.feature, feature_weight)
        row_feature = feature.row_variant
    shape = layer.parameter_shape(x.ndim)[1:]
    gamma, beta = layer.weight.view(shape), layer.bias.view(shape)
    positions = tuple(1 if axis == axes.feature else x.shape[axis] for axis in range(1, x.ndim))
    offset_batch = beta.view(1, 1, 1, *shape)
    return FactoredSum(
        scaled_batch=None if batch is None else batch.scaled(gamma),
        offset_batch=offset_batch if batch is None else torch.addcmul(beta, batch.offsets, gamma),
        scaled_feature=None if feature is None else feature.scaled(gamma),
        offset_feature=None if feature is None else feature.offsets.expand(-1, *groups.shape[:2], *positions),
        batch_variants=((0, 0),) if batch is None else batch.variants,
        feature_variants=((0, 0),) if feature is None else feature.variants,
        rows=tuple(zip(row_batch, row_feature, strict=True)),
        groups=layout.groups,
        size=layout.size,
        feature_shape=tuple(x.shape[1:]),
        gamma=gamma,
        feature_axis=axes.feature - 1,
    )
