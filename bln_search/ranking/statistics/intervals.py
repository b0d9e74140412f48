"""Confidence intervals of means, p values of t tests, and Holm's correction."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.ranking.statistics.student_t import two_sided_p_value, two_sided_t_quantile

CONFIDENCE_LEVEL = 0.95
"""Confidence level of all intervals."""

ALPHA = 0.05
"""Significance level."""


@dataclass(frozen=True)
class ConfidenceInterval:
    """A mean over n repetitions; half: half the width of its 95 % t interval, None for one repetition."""

    mean: float
    half: float | None
    n: int

    @property
    def low(self) -> float | None:
        """Lower end."""
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """Upper end."""
        return None if self.half is None else self.mean + self.half

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0; False where it is unknown."""
        return self.half is not None and abs(self.mean) > self.half


def mean_with_t_interval(values: Sequence[float]) -> ConfidenceInterval:
    """Mean of one value or more with its t interval, which assumes normally distributed values."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return ConfidenceInterval(mean, None, len(values))
    return t_interval_from_deviation(mean, statistics.stdev(values), len(values))


def t_interval_from_deviation(mean: float, deviation: float | None, n: int) -> ConfidenceInterval:
    """The t interval of a mean over n repetitions with this standard deviation (n − 1 in the denominator)."""
    if deviation is None or n < 2:
        return ConfidenceInterval(mean, None, n)
    return ConfidenceInterval(mean, two_sided_t_quantile(CONFIDENCE_LEVEL, n - 1) * deviation / math.sqrt(n), n)


def wilson_interval(fraction: float, n: int) -> tuple[float, float]:
    """Ends of the score interval of a proportion (Wilson 1927), between 0 and 1.

    Args:
        fraction: The observed fraction of n draws.
        n: Number of draws, at least 1.
    """
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE_LEVEL) / 2)
    centre = (fraction + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(fraction * (1 - fraction) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def welch_interval(first: Sequence[float], second: Sequence[float]) -> ConfidenceInterval:
    """Difference of the means of two independent samples (first − second) with Welch's t interval (1947).

    Degrees of freedom are rounded down, which makes the interval conservative.
    """
    mean = statistics.fmean(first) - statistics.fmean(second)
    if len(first) < 2 or len(second) < 2:
        return ConfidenceInterval(mean, None, min(len(first), len(second)))
    variances = [statistics.variance(sample) / len(sample) for sample in (first, second)]
    total = sum(variances)
    if total == 0:
        return ConfidenceInterval(mean, 0.0, min(len(first), len(second)))
    denominator = sum(
        variance**2 / (len(sample) - 1) for variance, sample in zip(variances, (first, second), strict=True)
    )
    degrees = max(1, math.floor(total**2 / denominator)) if denominator > 0 else len(first) + len(second) - 2
    return ConfidenceInterval(
        mean, two_sided_t_quantile(CONFIDENCE_LEVEL, degrees) * math.sqrt(total), min(len(first), len(second))
    )


def standard_deviation(values: Sequence[float], mean: float) -> float:
    """Standard deviation of two values or more (n − 1 in the denominator), exactly 0 for equal values.

    `statistics.stdev` computes with fractions, which takes ten times as long. A leaderboard needs thousands.
    """
    if values.count(values[0]) == len(values):  # rounding of the mean must not make the deviation positive
        return 0.0
    return math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / (len(values) - 1))


def paired_t_test_p_value_of_differences(differences: Sequence[float]) -> float | None:
    """Two-sided p value of Student's paired t test of a zero mean difference; None for fewer than two differences."""
    if len(differences) < 2:
        return None
    mean = statistics.fmean(differences)
    deviation = standard_deviation(differences, mean)
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    return two_sided_p_value(mean / deviation * math.sqrt(len(differences)), len(differences) - 1)


def adjust_p_values_by_holm(values: Sequence[float]) -> list[float]:
    """p values adjusted to control the familywise error rate (Holm 1979)."""
    adjusted = [0.0] * len(values)
    highest = 0.0
    for position, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, values[index] * (len(values) - position)))
        adjusted[index] = highest
    return adjusted
