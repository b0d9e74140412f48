"""Is a network worse than another one by a margin or more? A test of paired differences, and confidence bounds.

Student's t test is not valid here: losses are skewed, and with few examples a rare failure may be missing from them.
Of 0/1 errors that are all equal it has no variance, and would pass a network that fails in one of a hundred examples.

The test adds one unit to the n that were observed, whose difference is the largest one of either sign, and gives all of
them random exponential weights. p is the probability that the weighted mean is as large as the margin. This is Gaffke's
test (2005; Learned-Miller & Thomas 2020) of a mean whose values have a bound, with the largest observed difference as
the bound. Of 0/1 errors the bound is known, and the result is that of Clopper & Pearson (1934) where all differences
have one sign. `bench.not_worse` measures size and power. The size is above 5 % where few examples miss values far above
all that they have: without a bound no test of a mean is valid then (Bahadur & Savage 1956).

A network is not worse if this is shown in every condition: no correction is needed (intersection-union test, Berger
1982). That it is worse by more than the margin in a condition is corrected over the conditions (Holm 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from bln_search.ranking.comparison import POWER
from bln_search.ranking.paired.exponential_sum import probability_of_positive_sum
from bln_search.ranking.paired.table import Floats
from bln_search.ranking.statistics.intervals import ALPHA, adjust_p_values_by_holm

MIN_UNITS = 30
"""Number of units below which nothing is shown: what happens in a tenth of all units may be missing from fewer."""

_MOST_TIMES_AS_MANY = 1_000
"""Largest required number of units that is named, in multiples of those observed."""


class NotWorseVerdict(StrEnum):
    """What is known about a network beside its baseline (95 %).

    Members:
        NOT_WORSE: It is not worse by the margin or more.
        WORSE: It is worse by more than the margin.
        CANNOT_TELL: Neither is shown.
    """

    NOT_WORSE = "not worse"
    WORSE = "worse"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class PairedDifferences:
    """By how much a network is worse than its baseline on each unit: an example, or a mini-batch of dependent ones.

    Attributes:
        values: Loss of the network minus that of the baseline, (U,).
        weights: Weight of each unit in the mean, (U,), above 0.
        largest: Size of the largest difference that a further unit may have.
    """

    values: Floats
    weights: Floats
    largest: float

    @staticmethod
    def of_examples(
        values: Floats, weights: Floats, groups: NDArray[np.intp] | None = None, *, scale: float = 1.0
    ) -> PairedDifferences:
        """Make the units.

        Args:
            values: Difference of each example, (N,).
            weights: Weight of each example, (N,), above 0.
            groups: Number of the mini-batch of each example, (N,), if examples of a mini-batch depend on each other.
            scale: Size of a difference where all that were observed are 0.
        """
        if groups is not None:
            _, unit = np.unique(groups, return_inverse=True)
            sums, weights = (np.asarray(np.bincount(unit, each), np.float64) for each in (weights * values, weights))
            values = sums / weights
        return PairedDifferences(values, weights, float(np.abs(values).max(initial=0.0)) or scale)

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Weighted mean."""
        return float(np.average(self.values, weights=self.weights))

    @property
    def reversed(self) -> PairedDifferences:
        """The baseline minus the network."""
        return PairedDifferences(-self.values, self.weights, self.largest)

    def p_of_at_least(self, difference: float) -> float:
        """One-sided p value of a true mean of `difference` or more: small if the mean is shown to be below it."""
        values = np.append(self.weights * (self.values - difference), self.weights.max() * (self.largest - difference))
        return float(probability_of_positive_sum(values[None])[0])

    def upper_bound(self, level: float = ALPHA) -> float:
        """The smallest difference of which the true mean is shown to be below."""
        low, high = self.mean, max(float(self.values.max()), self.largest)
        if self.p_of_at_least(high) > level:  # all values and the largest one are equal
            return high
        return float(optimize.brentq(lambda difference: self.p_of_at_least(difference) - level, low, high, rtol=1e-6))

    def estimate_required_units(self, margin: float, level: float) -> int | None:
        """About how many units would decide with a probability of 80 %, if the observed mean and variance are true.

        None where more than a thousand times as many are needed.
        """
        gap, mean = abs(margin - self.mean), self.mean
        deviation = math.sqrt(float(np.average((self.values - mean) ** 2, weights=self.weights)))
        spread = float(special.ndtri(1 - level) + special.ndtri(POWER)) * deviation
        # The bound is above the mean by about largest/n + √(spread²/n + (2·largest/n)²), which is to be the gap.
        linear = spread**2 + 2 * gap * self.largest
        required = (linear + math.sqrt(linear**2 + 12 * (gap * self.largest) ** 2)) / 2  # times gap²
        if required >= gap**2 * _MOST_TIMES_AS_MANY * self.units:
            return None
        return max(MIN_UNITS, self.units + 1, math.ceil(required / gap**2))


@dataclass(frozen=True)
class MarginTest:
    """Result of the test in one condition; differences are those of the network minus the baseline, positive is worse.

    Attributes:
        verdict: What is known.
        mean: Mean difference.
        low: Lower 95 % confidence bound.
        high: Upper 95 % confidence bound.
        p_not_worse: p value of being worse by the margin or more: below 5 % where it is not worse.
        p_worse: p value of being worse by the margin or less, corrected over the conditions: below 5 % where it is
            worse.
        units: Number of units.
        required: About how many units would decide; None where it is decided, and where no number would.
    """

    verdict: NotWorseVerdict
    mean: float
    low: float
    high: float
    p_not_worse: float
    p_worse: float
    units: int
    required: int | None


def judge_conditions(conditions: Sequence[PairedDifferences], margins: Sequence[float]) -> list[MarginTest]:
    """Test the differences of each condition against its margin."""
    p_worse = adjust_p_values_by_holm(
        [each.reversed.p_of_at_least(-margin) for each, margin in zip(conditions, margins, strict=True)]
    )
    return [
        _judge(each, margin, p, ALPHA / len(conditions))
        for each, margin, p in zip(conditions, margins, p_worse, strict=True)
    ]


def _judge(differences: PairedDifferences, margin: float, p_worse: float, level_of_worse: float) -> MarginTest:
    p_not_worse, mean = differences.p_of_at_least(margin), differences.mean
    verdict = NotWorseVerdict.CANNOT_TELL
    if differences.units >= MIN_UNITS and min(p_not_worse, p_worse) < ALPHA:
        verdict = NotWorseVerdict.NOT_WORSE if p_not_worse < ALPHA else NotWorseVerdict.WORSE
    required = None
    if verdict is NotWorseVerdict.CANNOT_TELL:
        required = differences.estimate_required_units(margin, ALPHA if mean < margin else level_of_worse)
    return MarginTest(
        verdict=verdict,
        mean=mean,
        low=-differences.reversed.upper_bound(),
        high=differences.upper_bound(),
        p_not_worse=p_not_worse,
        p_worse=p_worse,
        units=differences.units,
        required=required,
    )
