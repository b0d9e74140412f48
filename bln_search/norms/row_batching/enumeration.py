"""Computation of a normalization layer under all rows of a plan at once."""

from __future__ import annotations

import torch
from torch import Tensor

from bln_search.norms.axes import InputAxes
from bln_search.norms.mixture import mix_means, mix_variances
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.dense_sum import DenseNormOutput
from bln_search.norms.row_batching.factored_sum import FactoredSum
from bln_search.norms.row_batching.row_sources import (
    LayerSourcesByRow,
    Mixtures,
    PairSourcesByRow,
    resolve_layer_sources_by_row,
)
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    LazyRowTensor,
    RowBatchedTensor,
    RowBatchingError,
    remove_row_tag,
    tag_with_rows,
)
from bln_search.norms.row_batching.scale_offset_variants import MiniBatchStatistics, ScaleOffsetVariants

_PIECE = 2**19
"""Values of all rows of some mini-batches that are normalized together; intermediate results stay in the cache."""


def normalize_all_rows(layer: NormalizationBase, x: RowBatchedTensor) -> RowBatchedTensor:
    """Return the layer's output under all rows: expanded from one common input, or each row from its own input."""
    layer.check_input(x)
    axes = layer.input_axes(x.ndim)
    _check_first_axis_length(x)
    sources = x.batch_layout.plan.layer_sources.get(layer)
    if sources is None:
        sources = x.batch_layout.plan.layer_sources[layer] = resolve_layer_sources_by_row(layer, x.batch_layout.plan, x)
    is_factored = axes.feature in axes.feature_reduction_axes
    if x.copies == 1 and is_factored:
        return LazyRowTensor.from_factored_output(
            _normalize_shared_input(layer, remove_row_tag(x), x.batch_layout, sources), x.batch_layout
        )
    copies = len(x.batch_layout.plan.rows)
    inputs = remove_row_tag(x)
    is_repeated = x.copies < copies
    inputs = inputs.repeat(copies // x.copies, *[1] * (x.ndim - 1)) if is_repeated else inputs.contiguous()
    return tag_with_rows(_normalize_separate_inputs(layer, inputs, x.batch_layout, sources), x.batch_layout, copies)


def _check_first_axis_length(x: RowBatchedTensor) -> None:
    expected = x.copies * x.batch_layout.examples_per_row
    if x.shape[0] != expected:
        raise RowBatchingError(
            f"a normalization layer got {x.shape[0]} examples instead of {expected}: a layer before it moved or merged "
            "the first axis"
        )


def _normalize_separate_inputs(
    layer: NormalizationBase, x: Tensor, layout: BatchLayout, sources: LayerSourcesByRow
) -> Tensor:
    """Normalize each row from its own input (K·G·N, ...), each branch as (x − E)·r with the mean E of the row."""
    axes = layer.input_axes(x.ndim)
    rows = x.reshape(-1, layout.groups, layout.size, *x.shape[1:])
    batch_weight, feature_weight = layer.branch_weights(layer.batch_size or layout.size)
    out = torch.empty_like(rows, dtype=torch.result_type(rows, layer.weight))
    step = layout.groups if x.is_cuda else max(1, _PIECE * layout.groups // max(1, rows.numel()))
    for start in range(0, layout.groups, step):
        piece = slice(start, start + step)
        _normalize_piece(layer, rows[:, piece], axes, sources, (batch_weight, feature_weight), out[:, piece])
    return out.reshape(x.shape)


def _normalize_piece(
    layer: NormalizationBase,
    rows: Tensor,
    axes: InputAxes,
    sources: LayerSourcesByRow,
    weights: tuple[float, float],
    out: Tensor,
) -> None:
    """Write the outputs of all rows of some mini-batches, (K, G, N, ...).

    Args:
        layer: the layer.
        rows: inputs.
        axes: of the inputs without rows and mini-batches.
        sources: of the statistics.
        weights: w_B and w_F.
        out: like `rows`.
    """
    shape = layer.broadcast_parameter_shape(rows.ndim - 2)
    gamma, beta = layer.weight.view(shape), layer.bias.view(shape)
    total = beta
    if sources.batch is not None:
        batch_axes = tuple(axis + 2 for axis in axes.batch_reduction_axes)
        centred, deviation = _centred_and_deviation(layer, rows, batch_axes, sources.batch)
        total = torch.addcmul(beta, centred, gamma * (weights[0] / deviation), out=out)
    if sources.feature is not None:
        feature_axes = tuple(axis + 2 for axis in axes.feature_reduction_axes)
        centred, deviation = _centred_and_deviation(layer, rows, feature_axes, sources.feature)
        torch.addcmul(total, centred.mul_(weights[1] / deviation), gamma, out=out)


def _centred_and_deviation(
    layer: NormalizationBase, rows: Tensor, axes: tuple[int, ...], pair: PairSourcesByRow
) -> tuple[Tensor, Tensor]:
    """Return x less the mean of each row, and the deviation of each row."""
    batch_mean = rows.mean(axes, keepdim=True)
    mean = batch_mean
    if pair.mean is not None and pair.mean_from_population is not None:
        mean = torch.where(pair.mean_from_population, _cut_to_batch_size(pair.mean, rows), batch_mean)
        for row, share in _stored_share_by_row(pair.mixed_means, rows, batch_mean).items():
            mean[row] = mix_means(batch_mean[row], mean[row], share)
    centre = mean if layer.formula_variant.around_selected_mean else batch_mean
    centred = rows - centre
    variance = (centred * centred).mean(axes, keepdim=True)
    if centre is not mean:
        torch.sub(rows, mean, out=centred)
    deviation = layer.formula_variant.compute_batch_deviation(variance, rows.numel() // batch_mean.numel())
    if pair.deviation is not None and pair.deviation_from_population is not None:
        batch_deviation = deviation
        deviation = torch.where(pair.deviation_from_population, _cut_to_batch_size(pair.deviation, rows), deviation)
        for row, share in _stored_share_by_row(pair.mixed_deviations, rows, batch_mean).items():
            between = pair.prior_mean if pair.mixed_deviations[row].has_between_variance else None
            distance = None if between is None else batch_mean[row] - between
            squares = batch_deviation[row].square(), deviation[row].square()
            deviation[row] = mix_variances(*squares, share, distance).sqrt()
    return centred, deviation


def _stored_share_by_row(mixtures: Mixtures, rows: Tensor, batch_mean: Tensor) -> dict[int, float]:
    """Return the share of the stored value in each row with a mixture.

    Args:
        mixtures: by the index of the row.
        rows: inputs (row, mini-batch, example, ...).
        batch_mean: their means, axes kept.
    """
    values = rows.numel() // batch_mean.numel()
    return {row: mixture.stored_share(rows.shape[2], values) for row, mixture in mixtures.items()}


def _cut_to_batch_size(value: Tensor, rows: Tensor) -> Tensor:
    """Return a population value (row, 1, slot, ...) cut to the size of the mini-batch."""
    return value if value.shape[2] == 1 else value[:, :, : rows.shape[2]]


def _normalize_shared_input(
    layer: NormalizationBase, x: Tensor, layout: BatchLayout, sources: LayerSourcesByRow
) -> FactoredSum | DenseNormOutput:
    """Return the outputs of all rows from one input (G·N, ...), as a sum of few tensors."""
    axes = layer.input_axes(x.ndim)
    groups = x.reshape(layout.groups, layout.size, *x.shape[1:])
    if x.ndim == 2 and axes.feature == 1:
        return DenseNormOutput(layer, groups, sources, len(layout.plan.rows))
    batch_weight, feature_weight = layer.branch_weights(layer.batch_size or layout.size)
    batch = feature = None
    row_batch = row_feature = [0] * len(layout.plan.rows)
    if sources.batch is not None:
        moments = MiniBatchStatistics.compute(groups, tuple(axis + 1 for axis in axes.batch_reduction_axes))
        batch = ScaleOffsetVariants(layer.formula_variant, moments, sources.batch, batch_weight)
        row_batch = batch.row_variant
    if sources.feature is not None:
        moments = MiniBatchStatistics.compute(groups, tuple(axis + 1 for axis in axes.feature_reduction_axes))
        feature = ScaleOffsetVariants(layer.formula_variant, moments, sources.feature, feature_weight)
        row_feature = feature.row_variant
    shape = layer.broadcast_parameter_shape(x.ndim)[1:]
    gamma, beta = layer.weight.view(shape), layer.bias.view(shape)
    positions = tuple(1 if axis == axes.feature else x.shape[axis] for axis in range(1, x.ndim))
    offset_batch = beta.view(1, 1, 1, *shape)
    offset_feature, feature_variants = (None, ((0, 0),)) if feature is None else feature.nonzero_offsets_and_variants()
    return FactoredSum(
        scaled_batch=None if batch is None else batch.scaled_inputs_per_scale(gamma),
        offset_batch=offset_batch if batch is None else torch.addcmul(beta, batch.offset_per_variant, gamma),
        scaled_feature=None if feature is None else feature.scaled_inputs_per_scale(gamma),
        offset_feature=None if offset_feature is None else offset_feature.expand(-1, *groups.shape[:2], *positions),
        batch_variants=((0, 0),) if batch is None else batch.variants,
        feature_variants=feature_variants,
        rows=tuple(zip(row_batch, row_feature, strict=True)),
        groups=layout.groups,
        size=layout.size,
        feature_shape=tuple(x.shape[1:]),
        gamma=gamma,
        feature_axis=axes.feature - 1,
    )
