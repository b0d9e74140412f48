"""Sources of a layer's statistics in every row of a plan, resolved once for all mini-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic
from bln_search.norms.mixture import MemoryMeanAndWeight, StoredAndMiniBatchMixture
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.row_batching.row_tensor import RowBatchingPlan
from bln_search.norms.statistics import PopulationPair


class StoredOrMixedSource(NamedTuple):
    """A stored value, alone or mixed with that of the mini-batch.

    Attributes:
        name: of the population.
        mixture: how it is mixed; None where it is used alone.
    """

    name: str
    mixture: StoredAndMiniBatchMixture | None = None


EstimateOrBatch = StoredOrMixedSource | None
"""Source of a value; None for the mini-batch."""

Mixtures = Mapping[int, StoredAndMiniBatchMixture]
"""How values are mixed, by the index of the row; rows without a mixed value are absent."""


@dataclass(frozen=True)
class PairSourcesByRow:
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
        mixed_means: the rows whose mean is mixed; `mean` has the population's part.
        mixed_deviations: the rows whose deviation is mixed; `deviation` has the population's part.
        prior_mean: mean around which the distance of the mini-batch counts in mixed deviations; None where none does.
    """

    sources: tuple[tuple[EstimateOrBatch, EstimateOrBatch], ...]
    populations: dict[str, PopulationPair]
    mean: Tensor | None
    mean_from_population: Tensor | None
    deviation: Tensor | None
    deviation_from_population: Tensor | None
    finite_means: frozenset[str]
    mixed_means: Mixtures
    mixed_deviations: Mixtures
    prior_mean: Tensor | None = None


@dataclass(frozen=True)
class LayerSourcesByRow:
    """Sources of the batch pair and the feature pair of a layer; None for a pair that the method does not have."""

    batch: PairSourcesByRow | None
    feature: PairSourcesByRow | None


def resolve_layer_sources_by_row(layer: NormalizationBase, plan: RowBatchingPlan, like: Tensor) -> LayerSourcesByRow:
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
                layer.check_population_positions(pair.mean, like.shape)
    batch = feature = None
    if layer.has_batch_statistics:
        pairs = {name: value.batch for name, value in populations.items() if value.batch is not None}
        priors = {name: value.prior for name, value in populations.items()}
        batch = _resolve_pair_sources(layer, plan, BATCH_STATISTICS, pairs, priors, like)
    if layer.has_feature_statistics:
        pairs = {name: value.feature for name, value in populations.items() if value.feature is not None}
        feature = _resolve_pair_sources(layer, plan, FEATURE_STATISTICS, pairs, {}, like)
    return LayerSourcesByRow(batch, feature)


def _resolve_pair_sources(
    layer: NormalizationBase,
    plan: RowBatchingPlan,
    statistics: tuple[Statistic, Statistic],
    pairs: dict[str, PopulationPair],
    priors: Mapping[str, MemoryMeanAndWeight | None],
    like: Tensor,
) -> PairSourcesByRow:
    def resolve_row_source(row_index: int, statistic: Statistic) -> EstimateOrBatch:
        row = plan.rows[row_index]
        source = row.configuration.source_of(statistic)
        if source.is_absent:
            raise ModelError(
                f"configuration {row.configuration} names no source of {statistic}, which a layer of this network needs"
            )
        if source.is_moving:
            raise ModelError(
                f"configuration {row.configuration} changes with each mini-batch: evaluate it by plain passes in "
                "the order of the mini-batches"
            )
        if source.fixed_estimate is not None:
            prior = priors.get(source.fixed_estimate)
            return StoredOrMixedSource(source.fixed_estimate, layer.find_mixture(source, None, prior))
        if not source.reads_population:
            return None
        if row.population_name is None:
            raise ModelError(f"configuration {row.configuration} uses population values, but the row names no estimate")
        if source.description.has_row_weight and row.blend is None:
            raise ModelError(f"configuration {row.configuration} blends values, but {row.estimate} names no weight")
        if row.population_name not in pairs:
            return None
        return StoredOrMixedSource(row.population_name, layer.find_mixture(source, row.blend, None))

    populations = {
        name: PopulationPair(
            _reshape_to_broadcast(pair.mean, like),
            None if pair.deviation is None else _reshape_to_broadcast(pair.deviation, like),
        )
        for name, pair in pairs.items()
    }
    sources = tuple(
        (resolve_row_source(i, statistics[0]), resolve_row_source(i, statistics[1])) for i in range(len(plan.rows))
    )
    means = [None if mean is None else populations[mean.name].mean for mean, _ in sources]
    deviations = [None if deviation is None else populations[deviation.name].deviation for _, deviation in sources]
    prior = next((prior for prior in priors.values() if prior is not None), None)
    mean, mean_from_population = _stack_rows(means)
    deviation, deviation_from_population = _stack_rows(deviations)
    finite_means = frozenset(name for name, pair in populations.items() if bool(pair.mean.isfinite().all()))
    return PairSourcesByRow(
        sources=sources,
        populations=populations,
        mean=mean,
        mean_from_population=mean_from_population,
        deviation=deviation,
        deviation_from_population=deviation_from_population,
        finite_means=finite_means,
        mixed_means=_find_mixtures([mean for mean, _ in sources]),
        mixed_deviations=_find_mixtures([deviation for _, deviation in sources]),
        prior_mean=None if prior is None else _reshape_to_broadcast(prior.mean, like),
    )


def _reshape_to_broadcast(value: Tensor, like: Tensor) -> Tensor:
    """Return a population value with the device, the dtype and the number of axes of `like`."""
    return value.to(like.device, like.dtype).view(*value.shape, *[1] * (like.ndim - value.ndim))


def _find_mixtures(sources: Sequence[EstimateOrBatch]) -> Mixtures:
    """Return the mixtures among the sources of all rows."""
    mixtures = {index: source.mixture for index, source in enumerate(sources) if source is not None}
    return {index: mixture for index, mixture in mixtures.items() if mixture is not None}


def _stack_rows(values: list[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """Stack the values of all rows with an axis for mini-batches, ones for None; return them and a mask of values.

    A value for the whole mini-batch is repeated where others have one value for each of its slots.
    """
    present = [value for value in values if value is not None]
    if not present:
        return None, None
    filled = [torch.ones_like(present[0]) if value is None else value for value in values]
    mask = torch.tensor([value is not None for value in values], device=present[0].device)
    shape = max((value.shape for value in filled), key=torch.Size.numel)
    return torch.stack([value.expand(shape) for value in filled]).unsqueeze(1), mask.view(
        -1, *[1] * (present[0].ndim + 1)
    )
