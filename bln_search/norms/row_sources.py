"""What a layer needs of every row of a plan, worked out once for all mini-batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS, Source, Statistic
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.base import NormalizationBase
from bln_search.norms.row_tensor import EnumerationPlan
from bln_search.norms.statistics import PopulationPair

Sourced = PopulationEstimate | None
"""Where a value comes from: an estimate of the population, or None for the mini-batch."""


@dataclass(frozen=True)
class PairRows:
    """For one pair of statistics: the source of mean and deviation in each row, and the population values by estimate.

    finite: the estimates whose means are all finite, around which x may be centred for other rows too.
    The four stacked tensors hold each row's population value and whether it is wanted, with axes (row, 1, slot, ...).
    """

    sources: tuple[tuple[Sourced, Sourced], ...]
    populations: dict[PopulationEstimate, PopulationPair]
    mean: Tensor | None
    mean_wanted: Tensor | None
    deviation: Tensor | None
    deviation_wanted: Tensor | None
    finite: frozenset[PopulationEstimate]


@dataclass(frozen=True)
class LayerRows:
    """Both pairs of a layer; None for one the method does not have."""

    batch: PairRows | None
    feature: PairRows | None


def prepare_rows(layer: NormalizationBase, plan: EnumerationPlan, like: Tensor) -> LayerRows:
    """What this layer needs for every mini-batch, worked out once."""
    populations = plan.populations.get(layer, {})
    for population in populations.values():
        for pair in (population.batch, population.feature):
            if pair is not None:
                layer.check_positions(pair.mean, like.shape)
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
        return row.estimate if source is Source.POPULATION and row.estimate in pairs else None

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
    finite = frozenset(name for name, pair in populations.items() if bool(pair.mean.isfinite().all()))
    return PairRows(sources, populations, mean, mean_wanted, deviation, deviation_wanted, finite)


def _stacked(values: list[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """Row values stacked with an axis for mini-batches, ones where there is none, and which rows have one."""
    present = [value for value in values if value is not None]
    if not present:
        return None, None
    filled = [torch.ones_like(present[0]) if value is None else value for value in values]
    wanted = torch.tensor([value is not None for value in values], device=present[0].device)
    return torch.stack(filled).unsqueeze(1), wanted.view(-1, *[1] * (present[0].ndim + 1))
