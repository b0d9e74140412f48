"""A normalization layer under every row of a plan at once."""

from __future__ import annotations

import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.norms.axes import check_features
from bln_search.norms.base import NormalizationBase
from bln_search.norms.dense import DenseSum
from bln_search.norms.factored import FactoredSum
from bln_search.norms.row_sources import LayerRows, PairRows, prepare_rows
from bln_search.norms.row_tensor import Arrangement, Examples, Pending, mark, plain
from bln_search.norms.variants import Measured, Variants


def enumerate_rows(layer: NormalizationBase, x: Examples) -> Examples:
    """The layer's output under every row of the plan: fanned out here, or each row continued from its own input."""
    axes = layer.axes(x.ndim)
    check_features(x, axes, layer.num_features)
    _check_layout(x)
    prepared = x.arrangement.plan.prepared.get(layer)
    if prepared is None:
        prepared = x.arrangement.plan.prepared[layer] = prepare_rows(layer, x.arrangement.plan, x)
    if x.copies == 1:
        return Pending.of(_fan_out(layer, plain(x), x.arrangement, prepared), x.arrangement)
    return mark(_continue_rows(layer, plain(x), x.arrangement, prepared), x.arrangement, x.copies)


def _check_layout(x: Examples) -> None:
    expected = x.copies * x.arrangement.examples
    if x.shape[0] != expected:
        raise ModelError(
            f"a normalization layer got {x.shape[0]} examples where {expected} were under way: a layer before it moved "
            "or merged the first axis; evaluate with one_pass=False"
        )


def _continue_rows(layer: NormalizationBase, x: Tensor, arrangement: Arrangement, prepared: LayerRows) -> Tensor:
    """Every row from its own input (K·G·N, ...), each part as (x − E)·r with the mean E of the row."""
    axes = layer.axes(x.ndim)
    rows = x.reshape(-1, arrangement.groups, arrangement.size, *x.shape[1:])
    shape = axes.features_shape(layer.num_features)
    gamma, beta = layer.weight.view(shape), layer.bias.view(shape)
    batch_factor, feature_factor = layer.factors(layer.batch_size or arrangement.size)
    total: Tensor | None = None
    if prepared.batch is not None:
        centred, deviation = _row_values(layer, rows, tuple(axis + 2 for axis in axes.batch), prepared.batch)
        total = torch.addcmul(beta, centred, gamma * (batch_factor / deviation))
    if prepared.feature is not None:
        centred, deviation = _row_values(layer, rows, (axes.feature + 2,), prepared.feature)
        part = centred.mul_(feature_factor / deviation)
        total = torch.addcmul(beta, part, gamma) if total is None else total.addcmul_(part, gamma)
    assert total is not None
    return total.reshape(x.shape)


def _row_values(layer: NormalizationBase, rows: Tensor, axes: tuple[int, ...], pair: PairRows) -> tuple[Tensor, Tensor]:
    """For each row: x less its mean, and the deviation."""
    mean = rows.mean(axes, keepdim=True)
    chosen = mean
    if pair.mean is not None and pair.mean_wanted is not None:
        chosen = torch.where(pair.mean_wanted, _slots(pair.mean, rows), mean)
    around = chosen if layer.reading.around_chosen_mean else mean
    centred = rows - around
    variance = (centred * centred).mean(axes, keepdim=True)
    if around is not chosen:
        torch.sub(rows, chosen, out=centred)
    deviation = torch.sqrt(variance + layer.reading.epsilon)
    if pair.deviation is not None and pair.deviation_wanted is not None:
        deviation = torch.where(pair.deviation_wanted, _slots(pair.deviation, rows), deviation)
    return centred, deviation


def _slots(value: Tensor, rows: Tensor) -> Tensor:
    """A population value (row, 1, slot, ...) cut to the slots of the mini-batch at hand."""
    return value if value.shape[2] == 1 else value[:, :, : rows.shape[2]]


def _fan_out(
    layer: NormalizationBase, x: Tensor, arrangement: Arrangement, prepared: LayerRows
) -> FactoredSum | DenseSum:
    """All rows from one input (G·N, ...), as a sum of few tensors."""
    axes = layer.axes(x.ndim)
    groups = x.reshape(arrangement.groups, arrangement.size, *x.shape[1:])
    if x.ndim == 2 and axes.feature == 1:
        return DenseSum(layer, groups, prepared, len(arrangement.plan.rows))
    factors = layer.factors(layer.batch_size or arrangement.size)
    batch = feature = None
    row_batch = row_feature = [0] * len(arrangement.plan.rows)
    if prepared.batch is not None:
        measured = Measured.of(groups, tuple(axis + 1 for axis in axes.batch))
        batch = Variants(layer.reading, measured, prepared.batch, factors[0])
        row_batch = batch.row_variant
    if prepared.feature is not None:
        feature = Variants(layer.reading, Measured.of(groups, (axes.feature + 1,)), prepared.feature, factors[1])
        row_feature = feature.row_variant
    shape = axes.features_shape(layer.num_features)[1:]
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
        groups=arrangement.groups,
        size=arrangement.size,
        feature_shape=tuple(x.shape[1:]),
        gamma=gamma,
        feature_axis=axes.feature - 1,
    )
