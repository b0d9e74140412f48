"""A mean with the interval that its repetitions leave open."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.ranking.statistics.student_t import quantile, two_sided_p

LEVEL = 0.95
"""Of every interval here."""

ALPHA = 0.05
"""Two things are told apart where p is below it."""


@dataclass(frozen=True)
class Interval:
    """A mean over n repetitions; half: half the width of its 95 % t interval, None for a single repetition."""

    mean: float
    half: float | None
    n: int

    @property
    def low(self) -> float | None:
        """The lower end."""
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """The upper end."""
        return None if self.half is None else self.mean + self.half

    @property
    def excludes_zero(self) -> bool:
        """Is nothing too little to explain it? False where that is not known."""
        return self.half is not None and abs(self.mean) > self.half


def interval_of(values: Sequence[float]) -> Interval:
    """The mean of one value or more, and its interval as if they came from a normal distribution."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None, len(values))
    return interval_around(mean, statistics.stdev(values), len(values))


def interval_around(mean: float, deviation: float | None, n: int) -> Interval:
    """The interval of a mean whose repetitions have this standard deviation (n - 1 in the denominator)."""
    if deviation is None or n < 2:
        return Interval(mean, None, n)
    return Interval(mean, quantile(LEVEL, n - 1) * deviation / math.sqrt(n), n)


def welch(first: Sequence[float], second: Sequence[float]) -> Interval:
    """The difference of two means (first - second) from repetitions that have nothing to do with one another.

    Degrees of freedom as Welch (1947) has them, rounded down: the interval is never too narrow for that.
    """
    mean = statistics.fmean(first) - statistics.fmean(second)
    if len(first) < 2 or len(second) < 2:
        return Interval(mean, None, min(len(first), len(second)))
    shares = [statistics.variance(one) / len(one) for one in (first, second)]
    total = sum(shares)
    if total == 0:
        return Interval(mean, 0.0, min(len(first), len(second)))
    below = sum(share**2 / (len(one) - 1) for share, one in zip(shares, (first, second), strict=True))
    degrees = max(1, math.floor(total**2 / below)) if below > 0 else len(first) + len(second) - 2
    return Interval(mean, quantile(LEVEL, degrees) * math.sqrt(total), min(len(first), len(second)))


def paired_p(differences: Sequence[float]) -> float | None:
    """Two-sided p of Student's paired t test that the mean difference is 0; None for fewer than two."""
    if len(differences) < 2:
        return None
    deviation = statistics.stdev(differences)
    mean = statistics.fmean(differences)
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    return two_sided_p(mean / deviation * math.sqrt(len(differences)), len(differences) - 1)


def holm(values: Sequence[float]) -> list[float]:
    """p values so raised that the chance of one false alarm among them all keeps to the level (Holm 1979)."""
    adjusted = [0.0] * len(values)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, values[index] * (len(values) - place)))
        adjusted[index] = highest
    return adjusted
