"""Sources of a layer's statistics in every row of a plan, resolved once for all mini-batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS, Source, Statistic
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import EnumerationPlan
from bln_search.norms.statistics import PopulationPair

EstimateOrBatch = PopulationEstimate | None
"""Source of a value: a population estimate, or None for the mini-batch."""


@dataclass(frozen=True)
class PairSources:
    """Sources of one pair of statistics (mean, deviation) in every row.

    Attributes:
        sources: for each row, the sources of mean and deviation.
        populations: population values by estimate.
        mean: the population mean of each row, axes (row, 1, slot, ...), ones where the row uses the mini-batch; None
            where no row uses a population mean.
        mean_from_population: whether each row uses the population mean, in a shape that broadcasts against `mean`.
        deviation: the population deviation of each row, like `mean`.
        deviation_from_population: whether each row uses the population deviation, like `mean_from_population`.
        finite_means: the estimates whose means are all finite; x may be centred around these for other rows too.
    """

    sources: tuple[tuple[EstimateOrBatch, EstimateOrBatch], ...]
    populations: dict[PopulationEstimate, PopulationPair]
    mean: Tensor | None
    mean_from_population: Tensor | None
    deviation: Tensor | None
    deviation_from_population: Tensor | None
    finite_means: frozenset[PopulationEstimate]


@dataclass(frozen=True)
class LayerSources:
    """Sources of the batch pair and the feature pair of a layer; None for a pair that the method does not have."""

    batch: PairSources | None
    feature: PairSources | None


def resolve_sources(layer: NormalizationBase, plan: EnumerationPlan, like: Tensor) -> LayerSources:
    """Resolve the sources of a layer in every row.

    Args:
        layer: the layer.
        plan: the rows and the population values of each layer.
        like: an input of the layer; population values get its device and dtype.

    Raises:
        ModelError: a configuration lacks a statistic of the layer, or a row names no estimate though it needs one.
    """
    populations = plan.populations.get(layer, {})
    for population in populations.values():
        for pair in (population.batch, population.feature):
            if pair is not None:
                layer.check_positions(pair.mean, like.shape)
    batch = feature = None
    if layer.has_batch_statistics:
        pairs = {name: value.batch for name, value in populations.items() if value.batch is not None}
        batch = _pair_sources(plan, BATCH_STATISTICS, pairs, like)
    if layer.has_feature_statistics:
        pairs = {name: value.feature for name, value in populations.items() if value.feature is not None}
        feature = _pair_sources(plan, FEATURE_STATISTICS, pairs, like)
    return LayerSources(batch, feature)


def _pair_sources(
    plan: EnumerationPlan,
    statistics: tuple[Statistic, Statistic],
    pairs: dict[PopulationEstimate, PopulationPair],
    like: Tensor,
) -> PairSources:
    def resolve(row_index: int, statistic: Statistic) -> EstimateOrBatch:
        row = plan.rows[row_index]
        source = row.configuration.source(statistic)
        if source is Source.ABSENT:
            raise ModelError(
                f"configuration {row.configuration} names no source of {statistic}, which a layer of this network needs"
            )
        if source is Source.MEMORY:
            return PopulationEstimate.MEMORY
        if source is Source.POPULATION and row.estimate is None:
            raise ModelError(f"configuration {row.configuration} uses population values, but the row names no estimate")
        return row.estimate if source is Source.POPULATION and row.estimate in pairs else None

    populations = {
        name: PopulationPair(
            pair.mean.to(like.device, like.dtype),
            None if pair.deviation is None else pair.deviation.to(like.device, like.dtype),
        )
        for name, pair in pairs.items()
    }
    sources = tuple((resolve(i, statistics[0]), resolve(i, statistics[1])) for i in range(len(plan.rows)))
    means = [None if mean is None else populations[mean].mean for mean, _ in sources]
    deviations = [None if deviation is None else populations[deviation].deviation for _, deviation in sources]
    mean, mean_from_population = _stack(means)
    deviation, deviation_from_population = _stack(deviations)
    finite_means = frozenset(name for name, pair in populations.items() if bool(pair.mean.isfinite().all()))
    return PairSources(
        sources=sources,
        populations=populations,
        mean=mean,
        mean_from_population=mean_from_population,
        deviation=deviation,
        deviation_from_population=deviation_from_population,
        finite_means=finite_means,
    )


def _stack(values: list[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """Stack the values of all rows with an axis for mini-batches, ones for None; return them and a mask of values."""
    present = [value for value in values if value is not None]
    if not present:
        return None, None
    filled = [torch.ones_like(present[0]) if value is None else value for value in values]
    mask = torch.tensor([value is not None for value in values], device=present[0].device)
    return torch.stack(filled).unsqueeze(1), mask.view(-1, *[1] * (present[0].ndim + 1))
