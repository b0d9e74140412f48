"""Statistics of one mini-batch, and the population values made from many of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.configuration import BATCH_STATISTICS, InferenceConfiguration, Source, Statistic
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.undefined_reasons import BESSEL
from bln_search.norms.formula_variant import Reading


@dataclass(frozen=True)
class Moments:
    """Over mini-batches: averages of a statistic μ, its deviation σ (with ε) and variance σ², and the variance of μ."""

    mean: Tensor
    variance_of_mean: Tensor
    deviation: Tensor
    variance: Tensor

    def averaged(self, axes: tuple[int, ...]) -> Moments:
        """Pooled over `axes` too, kept as axes of length one; Var[μ] by the law of total variance."""
        mean, within, deviation, variance = (value.mean(axes, keepdim=True) for value in self.parts)
        between = (self.mean - mean).square().mean(axes, keepdim=True)
        return Moments(mean, within + between, deviation, variance)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """All four."""
        return self.mean, self.variance_of_mean, self.deviation, self.variance


@dataclass(frozen=True)
class PopulationPair:
    """A population mean and deviation. `deviation` is None where it has no value, and `reason` then says why."""

    mean: Tensor
    deviation: Tensor | None
    reason: str | None = None


@dataclass(frozen=True)
class LayerPopulation:
    """Population values of one layer, ready to use; a pair is None where the method does not have it."""

    batch: PopulationPair | None
    feature: PopulationPair | None

    def undefined(self, configuration: InferenceConfiguration) -> str | None:
        """Why `configuration` has no value under this population, or None if it has one."""
        for pair, statistic in ((self.batch, Statistic.BATCH_DEVIATION), (self.feature, Statistic.FEATURE_DEVIATION)):
            wanted = configuration.source(statistic) in (Source.POPULATION, Source.MEMORY)
            if pair is not None and wanted and pair.deviation is None:
                return f"{statistic}: {pair.reason}"
        return None


def layer_configuration(
    configuration: InferenceConfiguration,
    estimate: PopulationEstimate | None,
    populations: Mapping[PopulationEstimate, LayerPopulation],
) -> InferenceConfiguration:
    """What a layer does under a row: where it has no such estimate it takes the mini-batch, as torch does without
    running statistics."""
    has_none = estimate is not None and estimate not in populations
    return configuration.without_population if has_none else configuration


def chosen_population(
    configuration: InferenceConfiguration,
    estimate: PopulationEstimate | None,
    populations: Mapping[PopulationEstimate, LayerPopulation],
) -> LayerPopulation | None:
    """The values a layer reads under `configuration`: each from the estimate, or from the memory where it says M.

    None where it reads nothing but mini-batches. `populations` holds what is known of the layer.
    """

    def estimate_of(statistic: Statistic) -> PopulationEstimate | None:
        if configuration.source(statistic) is Source.MEMORY:
            return PopulationEstimate.MEMORY
        return estimate

    if not configuration.uses_memory:
        return populations[estimate] if estimate is not None and configuration.uses_population else None
    mean, deviation = (estimate_of(statistic) for statistic in BATCH_STATISTICS)
    means = populations[mean or PopulationEstimate.MEMORY].batch
    deviations = populations[deviation or PopulationEstimate.MEMORY].batch
    assert means is not None
    assert deviations is not None
    return LayerPopulation(PopulationPair(means.mean, deviations.deviation, deviations.reason), None)


def centred_moments(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, x minus mean, and variance (divided by the count, Eq. 10-13) over `axes`, which are kept at length one."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    return mean, centred, (centred * centred).mean(axes, keepdim=True)


def population_pair(moments: Moments, count: int, reading: Reading, correction: Correction) -> PopulationPair:
    """The population mean and deviation made from averages over mini-batches.

    bessel: √(n/(n-1)·E[σ²] + ε) or n/(n-1)·E[σ], by the reading (BLN Eq. 5, 19, 21), n = `count`; no value for n = 1.
        BRN takes E[σ] as it is.
    total: √(E[σ²] + Var[μ] + ε), the law of total variance.
    """
    if correction is Correction.TOTAL:
        total = moments.variance + moments.variance_of_mean
        return PopulationPair(moments.mean, torch.sqrt(total + reading.epsilon))
    if reading.averages_deviation:
        return PopulationPair(moments.mean, moments.deviation)
    if count < 2:
        return PopulationPair(moments.mean, None, BESSEL)
    factor = count / (count - 1)
    if reading.corrects_variance:
        return PopulationPair(moments.mean, torch.sqrt(factor * moments.variance + reading.epsilon))
    return PopulationPair(moments.mean, factor * moments.deviation)
