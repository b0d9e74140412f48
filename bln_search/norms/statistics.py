"""Statistics of one mini-batch, and population values computed from those of many mini-batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.core.blend import parse_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic
from bln_search.core.undefined_reasons import BESSEL_UNDEFINED
from bln_search.norms.formula_variant import FormulaVariant
from bln_search.norms.mixture import MemoryMeanAndWeight


@dataclass(frozen=True)
class StatisticMoments:
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

    def pooled_over(self, axes: tuple[int, ...]) -> StatisticMoments:
        """Pool over `axes` too, kept as axes of length one; Var[μ] by the law of total variance."""
        mean, within, deviation, variance = (value.mean(axes, keepdim=True) for value in self.as_tuple)
        between = (self.mean - mean).square().mean(axes, keepdim=True)
        return StatisticMoments(mean, within + between, deviation, variance)

    def is_close_to(self, other: StatisticMoments, tolerance: float) -> bool:
        """Return whether all values are close to those of `other`, with the same shapes.

        Each value has a limit of its own: `tolerance` times E[σ], or the absolute mean where that is larger, for means
        and deviations; `tolerance` times E[σ²] + Var[μ] for variances. What single precision cannot resolve beside the
        mean is accepted: a deviation of 1e-5 of the mean. NaN is never close.

        Args:
            other: the expected moments.
            tolerance: relative to `other`.
        """
        if self.mean.shape != other.mean.shape:
            return False
        scale = torch.maximum(other.mean.abs(), other.deviation)
        variances = tolerance * (other.variance + other.variance_of_mean) + (1e-5 * scale).square()
        limits = (tolerance * scale, variances, tolerance * scale, variances)
        return all(
            bool(((value - expected).abs() <= limit).all())
            for value, expected, limit in zip(self.as_tuple, other.as_tuple, limits, strict=True)
        )

    @property
    def as_tuple(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
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
    """Population values of one layer; a pair is None where the method does not have it.

    Attributes:
        batch: of the mini-batch statistics.
        feature: of the feature statistics.
        prior: weight of the batch pair beside the present mini-batch; None where the estimate has none.
    """

    batch: PopulationPair | None
    feature: PopulationPair | None
    prior: MemoryMeanAndWeight | None = None

    @property
    def value_by_statistic(self) -> dict[Statistic, Tensor | None]:
        """The value of each statistic; None where the method does not have it or it is undefined."""
        pairs = (BATCH_STATISTICS, self.batch), (FEATURE_STATISTICS, self.feature)
        return {
            statistic: value
            for statistics, pair in pairs
            for statistic, value in zip(
                statistics, (None, None) if pair is None else (pair.mean, pair.deviation), strict=True
            )
        }

    def find_undefined_reason(self, configuration: InferenceConfiguration) -> str | None:
        """Return why `configuration` is undefined with this population; None where it is defined."""
        for pair, statistic in ((self.batch, Statistic.BATCH_DEVIATION), (self.feature, Statistic.FEATURE_DEVIATION)):
            is_used = configuration.source_of(statistic).reads_stored_value
            if pair is not None and is_used and pair.deviation is None:
                return f"{statistic}: {pair.reason}"
        return None


def configuration_of_layer_in_row(
    configuration: InferenceConfiguration, estimate: str | None, populations: Mapping[str, LayerPopulation]
) -> InferenceConfiguration:
    """Return the configuration of one layer in a row.

    A layer without that estimate uses mini-batch statistics, as torch's layers do without running statistics.

    Args:
        configuration: of the row.
        estimate: label of the population estimate; None where no statistic reads the population.
        populations: the layer's population values by name.
    """
    is_missing = estimate is not None and parse_estimate_label(estimate)[0] not in populations
    return configuration.with_mini_batch_for_population if is_missing else configuration


def select_layer_population(
    configuration: InferenceConfiguration, estimate: str | None, populations: Mapping[str, LayerPopulation]
) -> LayerPopulation | None:
    """Return the population values that a layer uses in `configuration`; None where it uses mini-batches only.

    Args:
        configuration: of the layer; letters such as M name their estimate themselves, T and B read `estimate`.
        estimate: label of the population estimate; None where no statistic reads the population.
        populations: the layer's population values by name.
    """
    name = None if estimate is None else parse_estimate_label(estimate)[0]
    if not configuration.estimates_named_by_letters:
        return populations[name] if name is not None and configuration.uses_population else None
    fallback = (
        name if name is not None and configuration.uses_population else configuration.estimates_named_by_letters[0]
    )
    selected = {
        statistic: populations[source.fixed_estimate or fallback]
        for statistic, source in configuration.source_by_statistic.items()
        if not source.is_absent
    }
    weighted = [source for source in configuration.source_by_statistic.values() if source.has_stored_weight]
    prior = populations[str(weighted[0].fixed_estimate)].prior if weighted else None
    return LayerPopulation(
        _select_pair([selected[name].batch for name in BATCH_STATISTICS if name in selected]),
        _select_pair([selected[name].feature for name in FEATURE_STATISTICS if name in selected]),
        prior,
    )


def _select_pair(pairs: Sequence[PopulationPair | None]) -> PopulationPair | None:
    """Return the mean of the first pair and the deviation of the second; None without pairs."""
    if not pairs:
        return None
    mean, deviation = pairs
    assert mean is not None
    assert deviation is not None
    return PopulationPair(mean.mean, deviation.deviation, deviation.reason)


def mean_and_centred_and_variance(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, x minus mean, and variance (divided by the count, Eq. 10-13) over `axes`, kept at length one."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    return mean, centred, (centred * centred).mean(axes, keepdim=True)


def compute_population_pair(
    moments: StatisticMoments, count: int, variant: FormulaVariant, correction: Correction
) -> PopulationPair:
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
