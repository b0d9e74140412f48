"""Which rows may be chosen instead of the best one: rows whose expected loss is above it by no more than the margin.

An observed difference d of variance v is a noisy estimate, and a selected one: the best row was selected for a low mean
loss. Its expected true value is shrunk (empirical Bayes): true differences of two rows have a normal prior of mean 0
and variance p, which makes the posterior N(w·d, w·v) with w = p/(p + v). Two estimates of p compete, and the larger one
counts: one from all pairs of rows (`estimate_difference_prior`), and d² − v of this pair alone (which makes it the
positive-part estimator of James & Stein 1961). Where rows differ by no more than noise, nothing is expected.

Where the best of R − 1 rows is compared with the row that is in use, the selection is stronger. The largest of R − 1
squared noise terms grows with 2·ln(R − 1), so the second estimate is d² − v·(1 + ln(R − 1)/2). The row in use is also
kept if a change may do harm: if the best row is worse than it by more than the margin with a probability above 10 %.
`bench.answers` compares the losses of the rows that this rule, and others, recommend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

DEFAULT_MARGIN = 0.01
"""Difference of mean losses in nats up to which rows are practically equal, by default."""

_DEFAULT_RELATIVE_MARGIN = 0.01
"""The same as a fraction of the lowest loss, for a score that is not in nats of a class."""

MAX_PROBABILITY_OF_HARM = 0.1
"""Probability, up to which a row replaces the row in use, that it is worse by more than the margin."""


def default_margin(lowest: float, *, has_correctness: bool) -> float:
    """Difference of mean losses up to which rows are practically equal, by default.

    Args:
        lowest: The lowest mean loss, for a score without correctness, whose unit is unknown.
        has_correctness: Whether the loss is in nats, of predictions that are correct or not.
    """
    return DEFAULT_MARGIN if has_correctness else _DEFAULT_RELATIVE_MARGIN * abs(lowest)


def may_replace(gain: float, variances: tuple[float, float], margin: float) -> bool:
    """Whether another row than the best one may replace the row in use.

    Args:
        gain: Observed loss of the row in use minus that of the other row.
        variances: Variances of the differences of these two rows to the best one. Whatever their covariance is, that of
            `gain` is at most the square of the sum of their roots.
        margin: Difference up to which rows are practically equal.
    """
    return gain > 0 and _is_probably_harmless(gain, sum(map(math.sqrt, variances)) ** 2, margin)


def _is_probably_harmless(gain: float, variance: float, margin: float) -> bool:
    """Whether a true gain of this distribution is improbable to be a loss of more than the margin."""
    return variance == 0 or NormalDist(gain, math.sqrt(variance)).cdf(-margin) <= MAX_PROBABILITY_OF_HARM


@dataclass(frozen=True)
class DifferencePrior:
    """Normal prior of the true difference of two rows of a table.

    Attributes:
        variance: Its variance; its mean is 0.
    """

    variance: float

    def expected_difference(self, difference: float, variance: float, candidates: int = 1) -> float:
        """Expected true value of a difference, not below 0.

        Args:
            difference: Observed difference to the lowest loss, at least 0.
            variance: Its variance.
            candidates: Number of rows of which the best one was selected, where they compete with the row in use; 1 for
                rows that compete with each other.
        """
        return difference * self._weight(difference, variance, candidates)

    def keeps_row_in_use(self, difference: float, variance: float, margin: float, candidates: int) -> bool:
        """Whether the row in use is kept, whose loss is observed to be above the lowest by `difference`.

        It is unless its expected loss is above the lowest by more than the margin, and the best row is improbable to be
        worse than it by more than the margin. Arguments as of `expected_difference`.
        """
        weight = self._weight(difference, variance, candidates)
        expected = weight * difference
        return expected <= margin or not _is_probably_harmless(expected, weight * variance, margin)

    def _weight(self, difference: float, variance: float, candidates: int) -> float:
        """Weight of an observed difference beside the prior."""
        if variance == 0:
            return 1.0
        selected = variance * (1 + math.log(max(1, candidates)) / 2)
        prior = max(self.variance, difference * difference - selected)
        return 1 / (1 + variance / prior) if prior > 0 else 0.0
