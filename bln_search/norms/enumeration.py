"""A normalization layer under every row of a plan at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS, Source, Statistic
from bln_search.core.errors import ModelError
from bln_search.core.words import PopulationEstimate
from bln_search.norms.axes import check_features
from bln_search.norms.examples import Arrangement, EnumerationPlan, Examples, Pending, mark, plain
from bln_search.norms.factored import FactoredSum
from bln_search.norms.statistics import PopulationPair, centred_moments

if TYPE_CHECKING:
    from bln_search.norms.layer import Normalization

_T = TypeVar("_T", bound=Hashable)
Sourced = PopulationEstimate | None
"""Where a value comes from: an estimate of the population, or None for the mini-batch."""


@dataclass(frozen=True)
class PairRows:
    """For one pair of statistics: the source of mean and deviation in each row, and the population values by estimate.

    The four stacked tensors hold each row's population value and whether it is wanted, with axes (row, 1, slot, ...).
    """

    sources: tuple[tuple[Sourced, Sourced], ...]
    populations: dict[PopulationEstimate, PopulationPair]
    mean: Tensor | None
    mean_wanted: Tensor | None
    deviation: Tensor | None
    deviation_wanted: Tensor | None


@dataclass(frozen=True)
class LayerRows:
    """Both pairs of a layer; None for one the method does not have."""

    batch: PairRows | None
    feature: PairRows | None


def enumerate_rows(layer: Normalization, x: Examples) -> Examples:
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


def prepare_rows(layer: Normalization, plan: EnumerationPlan, like: Tensor) -> LayerRows:
    """What this layer needs for every mini-batch, worked out once."""
    populations = plan.populations.get(layer, {})
    batch = feature = None
    if layer.has_batch:
        pairs = {name: value.batch for name, value in populations.items() if value.batch is not None}
        batch = _pair_rows(plan, BATCH_STATISTICS, pairs, like)
    if layer.has_feature:
        pairs = {name: value.feature for name, value in populations.items() if value.feature is not None}
        feature = _pair_rows(plan, FEATURE_STATISTICS, pairs, like)
    return LayerRows(batch, feature)


def _pair_rows(
    plan: EnumerationPlan,
    statistics: tuple[Statistic, Statistic],
    pairs: dict[PopulationEstimate, PopulationPair],
    like: Tensor,
) -> PairRows:
    def sourced(row_index: int, statistic: Statistic) -> Sourced:
        row = plan.rows[row_index]
        source = row.configuration.source(statistic)
        if source is Source.ABSENT:
            raise ModelError(f"configuration {row.configuration} does not name {statistic}, which a layer here needs")
        if source is Source.MEMORY:
            return PopulationEstimate.MEMORY
        if source is Source.POPULATION and row.estimate is None:
            raise ModelError(f"configuration {row.configuration} reads population values, but no estimate is named")
        return row.estimate if source is Source.POPULATION else None

    populations = {
        name: PopulationPair(
            pair.mean.to(like.device, like.dtype),
            None if pair.deviation is None else pair.deviation.to(like.device, like.dtype),
        )
        for name, pair in pairs.items()
    }
    sources = tuple((sourced(i, statistics[0]), sourced(i, statistics[1])) for i in range(len(plan.rows)))
    means = [None if mean is None else populations[mean].mean for mean, _ in sources]
    deviations = [None if deviation is None else populations[deviation].deviation for _, deviation in sources]
    mean, mean_wanted = _stacked(means)
    deviation, deviation_wanted = _stacked(deviations)
    return PairRows(sources, populations, mean, mean_wanted, deviation, deviation_wanted)


def _stacked(values: list[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """Row values stacked with an axis for mini-batches, ones where there is none, and which rows have one."""
    present = [value for value in values if value is not None]
    if not present:
        return None, None
    filled = [torch.ones_like(present[0]) if value is None else value for value in values]
    wanted = torch.tensor([value is not None for value in values], device=present[0].device)
    return torch.stack(filled).unsqueeze(1), wanted.view(-1, *[1] * (present[0].ndim + 1))


def _continue_rows(layer: Normalization, x: Tensor, arrangement: Arrangement, prepared: LayerRows) -> Tensor:
    """Every row from its own input (K·G·N, ...), each part as (x − μ)·r + (μ − E)·r with μ the mini-batch's mean."""
    axes = layer.axes(x.ndim)
    rows = x.view(-1, arrangement.groups, arrangement.size, *x.shape[1:])
    shape = axes.features_shape(layer.num_features)
    gamma, beta = layer.weight.view(shape), layer.bias.view(shape)
    batch_factor, feature_factor = layer.factors(layer.batch_size or arrangement.size)
    total: Tensor | None = None
    if prepared.batch is not None:
        centred, shift, deviation = _row_values(layer, rows, tuple(axis + 2 for axis in axes.batch), prepared.batch)
        scale = gamma * (batch_factor / deviation)
        total = torch.addcmul(beta if shift is None else torch.addcmul(beta, shift, scale), centred, scale)
    if prepared.feature is not None:
        centred, shift, deviation = _row_values(layer, rows, (axes.feature + 2,), prepared.feature)
        scale = feature_factor / deviation
        part = centred * scale if shift is None else torch.addcmul(shift * scale, centred, scale)
        total = torch.addcmul(beta, part, gamma) if total is None else total.addcmul_(part, gamma)
    assert total is not None
    return total.view_as(x)


def _row_values(
    layer: Normalization, rows: Tensor, axes: tuple[int, ...], pair: PairRows
) -> tuple[Tensor, Tensor | None, Tensor]:
    """For each row: x − μ, μ − E where a mean comes from the population, and the deviation."""
    mean, centred, variance = centred_moments(rows, axes)
    epsilon = layer.reading.epsilon
    shift = None
    if pair.mean is not None and pair.mean_wanted is not None:
        shift = torch.where(pair.mean_wanted, mean - _slots(pair.mean, rows), 0.0)
        if layer.reading.around_chosen_mean:
            variance = variance + shift.square()
    deviation = torch.sqrt(variance + epsilon)
    if pair.deviation is not None and pair.deviation_wanted is not None:
        deviation = torch.where(pair.deviation_wanted, _slots(pair.deviation, rows), deviation)
    return centred, shift, deviation


def _slots(value: Tensor, rows: Tensor) -> Tensor:
    """A population value (row, 1, slot, ...) cut to the slots of the mini-batch at hand."""
    return value if value.shape[2] == 1 else value[:, :, : rows.shape[2]]


def _fan_out(layer: Normalization, x: Tensor, arrangement: Arrangement, prepared: LayerRows) -> FactoredSum:
    """All rows from one input (G·N, ...), as a sum of few tensors."""
    axes = layer.axes(x.ndim)
    groups = x.view(arrangement.groups, arrangement.size, *x.shape[1:])
    shape = axes.features_shape(layer.num_features)[1:]
    gamma, beta = layer.weight.view(shape), layer.bias.view(shape)
    batch_factor, feature_factor = layer.factors(layer.batch_size or arrangement.size)
    scaled_batch = scaled_feature = offset_feature = None
    offset_batch = beta.view(1, 1, 1, *shape)
    batch_variants: tuple[tuple[int, int], ...] = ((0, 0),)
    feature_variants: tuple[tuple[int, int], ...] = ((0, 0),)
    row_batch = row_feature = [0] * len(arrangement.plan.rows)
    if prepared.batch is not None:
        parts = _Variants(layer, groups, tuple(axis + 1 for axis in axes.batch), prepared.batch, batch_factor)
        scaled_batch = parts.centred * (gamma * parts.scales)
        offset_batch = torch.addcmul(beta, parts.offsets, gamma)
        batch_variants, row_batch = parts.variants, parts.row_variant
    if prepared.feature is not None:
        parts = _Variants(layer, groups, (axes.feature + 1,), prepared.feature, feature_factor)
        scaled_feature = (parts.centred * gamma) * parts.scales
        offset_feature = parts.offsets
        feature_variants, row_feature = parts.variants, parts.row_variant
        offset_feature = offset_feature.expand(
            -1,
            arrangement.groups,
            arrangement.size,
            *(1 if a == axes.feature else x.shape[a] for a in range(1, x.ndim)),
        )
    return FactoredSum(
        scaled_batch=scaled_batch,
        offset_batch=offset_batch,
        scaled_feature=scaled_feature,
        offset_feature=offset_feature,
        batch_variants=batch_variants,
        feature_variants=feature_variants,
        rows=tuple(zip(row_batch, row_feature, strict=True)),
        groups=arrangement.groups,
        size=arrangement.size,
        feature_shape=tuple(x.shape[1:]),
        gamma=gamma,
        feature_axis=axes.feature - 1,
    )


class _Variants:
    """The distinct scales r and offsets (μ − E)·r of one pair over one input (G, N, ...), μ its own mean.

    centred: x − μ; scales: (distinct deviations, G, N or 1, ...); offsets: (variants, G, N or 1, ...).
    variants: for each distinct (mean, deviation) the index of its scale and its offset.
    row_variant: for each row its variant.
    """

    def __init__(
        self, layer: Normalization, groups: Tensor, axes: tuple[int, ...], pair: PairRows, factor: float
    ) -> None:
        mean, self.centred, variance = centred_moments(groups, axes)
        size, epsilon = groups.shape[1], layer.reading.epsilon

        def shift_of(source: Sourced) -> Tensor:
            return torch.zeros_like(mean) if source is None else mean - pair.populations[source].mean[:size]

        def deviation_of(key: tuple[str, Sourced]) -> Tensor:
            kind, source = key
            if kind == "population":
                assert source is not None
                deviation = pair.populations[source].deviation
                assert deviation is not None
                return deviation[:size]
            around = variance if source is None else variance + shift_of(source).square()
            return torch.sqrt(around + epsilon)

        keys = [_deviation_key(source, around_chosen=layer.reading.around_chosen_mean) for source in pair.sources]
        distinct_keys = _distinct(keys)
        shape = mean.shape
        scales = [factor / deviation_of(key).expand(shape) for key in distinct_keys]
        variants = _distinct(zip((source[0] for source in pair.sources), keys, strict=True))
        scale_of = [distinct_keys.index(key) for _, key in variants]
        self.scales = torch.stack(scales)
        self.offsets = torch.stack(
            [shift_of(source) * scales[i] for (source, _), i in zip(variants, scale_of, strict=True)]
        )
        self.variants = tuple((scale, offset) for offset, scale in enumerate(scale_of))
        self.row_variant = [variants.index((source[0], key)) for source, key in zip(pair.sources, keys, strict=True)]


def _deviation_key(source: tuple[Sourced, Sourced], *, around_chosen: bool) -> tuple[str, Sourced]:
    """What a row's deviation depends on: its population estimate, or the mean it is taken around."""
    mean, deviation = source
    if deviation is not None:
        return "population", deviation
    return "mini-batch", mean if around_chosen else None


def _distinct(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))
