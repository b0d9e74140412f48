"""Sources of a layer's statistics in every row of a plan, resolved once for all mini-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.blend import Blend, parse_estimate
from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS, Source, Statistic
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import EnumerationPlan
from bln_search.norms.statistics import PopulationPair

EstimateOrBatch = str | None
"""Source of a value: the name of a population, a blend (`target@0.1`), or None for the mini-batch."""

Blends = Mapping[int, Blend]
"""Weights of the population, by the index of the row; rows without a blended value are absent."""


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
        finite_means: the populations whose means are all finite; x may be centred around these for other rows too.
        blended_means: the rows whose mean is blended; `mean` has the population's part.
        blended_deviations: the rows whose deviation is blended; `deviation` has the population's part.
    """

    sources: tuple[tuple[EstimateOrBatch, EstimateOrBatch], ...]
    populations: dict[str, PopulationPair]
    mean: Tensor | None
    mean_from_population: Tensor | None
    deviation: Tensor | None
    deviation_from_population: Tensor | None
    finite_means: frozenset[str]
    blended_means: Blends
    blended_deviations: Blends


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
    pairs: dict[str, PopulationPair],
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
        if not source.reads_population:
            return None
        if row.population_name is None:
            raise ModelError(f"configuration {row.configuration} uses population values, but the row names no estimate")
        if source is Source.BLEND and row.blend is None:
            raise ModelError(f"configuration {row.configuration} blends values, but {row.estimate} names no weight")
        if row.population_name not in pairs:
            return None
        return row.estimate if source is Source.BLEND else row.population_name

    populations = {
        name: PopulationPair(
            _reshape_to_broadcast(pair.mean, like),
            None if pair.deviation is None else _reshape_to_broadcast(pair.deviation, like),
        )
        for name, pair in pairs.items()
    }
    sources = tuple((resolve(i, statistics[0]), resolve(i, statistics[1])) for i in range(len(plan.rows)))
    means = [None if mean is None else populations[parse_estimate(mean)[0]].mean for mean, _ in sources]
    deviations = [
        None if deviation is None else populations[parse_estimate(deviation)[0]].deviation for _, deviation in sources
    ]
    mean, mean_from_population = _stack_rows(means)
    deviation, deviation_from_population = _stack_rows(deviations)
    finite_means = frozenset(name for name, pair in populations.items() if bool(pair.mean.isfinite().all()))
    return PairSources(
        sources=sources,
        populations=populations,
        mean=mean,
        mean_from_population=mean_from_population,
        deviation=deviation,
        deviation_from_population=deviation_from_population,
        finite_means=finite_means,
        blended_means=_find_blends([mean for mean, _ in sources]),
        blended_deviations=_find_blends([deviation for _, deviation in sources]),
    )


def _reshape_to_broadcast(value: Tensor, like: Tensor) -> Tensor:
    """Return a population value with the device, the dtype and the number of axes of `like`."""
    return value.to(like.device, like.dtype).view(*value.shape, *[1] * (like.ndim - value.ndim))


def _find_blends(sources: Sequence[EstimateOrBatch]) -> Blends:
    """Return the weights of the blended values among the sources of all rows."""
    parsed = {index: parse_estimate(source)[1] for index, source in enumerate(sources) if source is not None}
    return {index: blend for index, blend in parsed.items() if blend is not None}


def _stack_rows(values: list[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """Stack the values of all rows with an axis for mini-batches, ones for None; return them and a mask of values."""
    present = [value for value in values if value is not None]
    if not present:
        return None, None
    filled = [torch.ones_like(present[0]) if value is None else value for value in values]
    mask = torch.tensor([value is not None for value in values], device=present[0].device)
    return torch.stack(filled).unsqueeze(1), mask.view(-1, *[1] * (present[0].ndim + 1))
