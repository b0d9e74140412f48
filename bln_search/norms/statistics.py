"""Statistics of one mini-batch, and population values computed from those of many mini-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.blend import parse_estimate
from bln_search.core.configuration import (
    BATCH_STATISTICS,
    FEATURE_STATISTICS,
    InferenceConfiguration,
    Source,
    Statistic,
)
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.undefined_reasons import BESSEL_UNDEFINED
from bln_search.norms.formula_variant import FormulaVariant


@dataclass(frozen=True)
class Moments:
    """Moments over mini-batches.

    Attributes:
        mean: E[μ].
        variance_of_mean: Var[μ].
        deviation: E[σ], σ with ε under the root.
        variance: E[σ²].
    """

    mean: Tensor
    variance_of_mean: Tensor
    deviation: Tensor
    variance: Tensor

    def pooled_over(self, axes: tuple[int, ...]) -> Moments:
        """Pool over `axes` too, kept as axes of length one; Var[μ] by the law of total variance."""
        mean, within, deviation, variance = (value.mean(axes, keepdim=True) for value in self.parts)
        between = (self.mean - mean).square().mean(axes, keepdim=True)
        return Moments(mean, within + between, deviation, variance)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """E[μ], Var[μ], E[σ], E[σ²]."""
        return self.mean, self.variance_of_mean, self.deviation, self.variance


@dataclass(frozen=True)
class PopulationPair:
    """A population mean and deviation.

    Attributes:
        mean: the population mean.
        deviation: the population deviation; None where it is undefined.
        reason: why the deviation is undefined; None where it is defined.
    """

    mean: Tensor
    deviation: Tensor | None
    reason: str | None = None


@dataclass(frozen=True)
class LayerPopulation:
    """Population values of one layer; a pair is None where the method does not have it."""

    batch: PopulationPair | None
    feature: PopulationPair | None

    @property
    def values(self) -> dict[Statistic, Tensor | None]:
        """The value of each statistic; None where the method does not have it or it is undefined."""
        pairs = (BATCH_STATISTICS, self.batch), (FEATURE_STATISTICS, self.feature)
        return {
            statistic: value
            for statistics, pair in pairs
            for statistic, value in zip(
                statistics, (None, None) if pair is None else (pair.mean, pair.deviation), strict=True
            )
        }

    def undefined_reason(self, configuration: InferenceConfiguration) -> str | None:
        """Return why `configuration` is undefined with this population; None where it is defined."""
        for pair, statistic in ((self.batch, Statistic.BATCH_DEVIATION), (self.feature, Statistic.FEATURE_DEVIATION)):
            is_used = configuration.source(statistic).is_stored
            if pair is not None and is_used and pair.deviation is None:
                return f"{statistic}: {pair.reason}"
        return None


def layer_configuration(
    configuration: InferenceConfiguration, estimate: str | None, populations: Mapping[str, LayerPopulation]
) -> InferenceConfiguration:
    """Return the configuration of one layer in a row.

    A layer without that estimate uses mini-batch statistics, as torch's layers do without running statistics.

    Args:
        configuration: of the row.
        estimate: label of the population estimate; None where no statistic reads the population.
        populations: the layer's population values by name.
    """
    is_missing = estimate is not None and parse_estimate(estimate)[0] not in populations
    return configuration.with_mini_batch_statistics if is_missing else configuration


def select_population(
    configuration: InferenceConfiguration, estimate: str | None, populations: Mapping[str, LayerPopulation]
) -> LayerPopulation | None:
    """Return the population values that a layer uses in `configuration`; None where it uses mini-batches only.

    Args:
        configuration: of the layer; statistics of source M come from the memory, of source T or B from `estimate`.
        estimate: label of the population estimate; None where no statistic reads the population.
        populations: the layer's population values by name.
    """
    name = None if estimate is None else parse_estimate(estimate)[0]

    def name_of(statistic: Statistic) -> str | None:
        if configuration.source(statistic) is Source.MEMORY:
            return PopulationEstimate.MEMORY
        return name

    if not configuration.uses_memory:
        return populations[name] if name is not None and configuration.uses_population else None
    mean, deviation = (name_of(statistic) for statistic in BATCH_STATISTICS)
    means = populations[mean or PopulationEstimate.MEMORY].batch
    deviations = populations[deviation or PopulationEstimate.MEMORY].batch
    assert means is not None
    assert deviations is not None
    return LayerPopulation(PopulationPair(means.mean, deviations.deviation, deviations.reason), None)


def centred_moments(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, x minus mean, and variance (divided by the count, Eq. 10-13) over `axes`, kept at length one."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    return mean, centred, (centred * centred).mean(axes, keepdim=True)


def population_pair(moments: Moments, count: int, variant: FormulaVariant, correction: Correction) -> PopulationPair:
    """Compute the population mean and deviation from moments over mini-batches.

    With correction `bessel` the deviation is √(n/(n-1)·E[σ²] + ε) or n/(n-1)·E[σ], depending on the formula variant
    (BLN Eq. 5, 19, 21), and undefined for n = 1; BRN uses E[σ] without a factor. With `total` it is
    √(E[σ²] + Var[μ] + ε), by the law of total variance.

    Args:
        moments: averages over mini-batches.
        count: n, the number of values averaged in one mini-batch.
        variant: details of the formulas.
        correction: `bessel` or `total`.
    """
    if correction is Correction.TOTAL:
        total = moments.variance + moments.variance_of_mean
        return PopulationPair(moments.mean, torch.sqrt(total + variant.epsilon))
    if variant.averages_deviation:
        return PopulationPair(moments.mean, moments.deviation)
    if count < 2:
        return PopulationPair(moments.mean, None, BESSEL_UNDEFINED)
    factor = count / (count - 1)
    if variant.corrects_variance:
        return PopulationPair(moments.mean, torch.sqrt(factor * moments.variance + variant.epsilon))
    return PopulationPair(moments.mean, factor * moments.deviation)
