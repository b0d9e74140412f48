"""Which rows may be chosen instead of the best one: rows whose expected loss is above it by no more than the margin.

An observed difference d of variance v is a noisy estimate, and a selected one: the best row was selected for a low mean
loss. Its expected true value is shrunk, by a normal prior around 0 whose variance is estimated from d itself (the
positive-part estimator of James & Stein 1961): d·max(0, 1 − v/d²). Below one standard error nothing is expected. Above,
the estimate approaches d. With a margin of 0 a row may be chosen if it is at most one standard error above the best
one, which is the rule of Breiman et al. (1984).

Where the best of R − 1 rows is compared with the row that is in use, the selection is stronger. The largest of R − 1
squared noise terms grows with 2·ln(R − 1), so v is multiplied by 1 + ln(R − 1)/2. `bench.answers` compares the losses
of the rows that this rule, and others, recommend.
"""

from __future__ import annotations

import math

DEFAULT_MARGIN = 0.01
"""Difference of mean losses in nats up to which rows are practically equal, by default."""

_DEFAULT_RELATIVE_MARGIN = 0.01
"""The same as a fraction of the lowest loss, for a score that is not in nats of a class."""


def default_margin(lowest: float, *, has_correctness: bool) -> float:
    """Difference of mean losses up to which rows are practically equal, by default.

    Args:
        lowest: The lowest mean loss, for a score without correctness, whose unit is unknown.
        has_correctness: Whether the loss is in nats, of predictions that are correct or not.
    """
    return DEFAULT_MARGIN if has_correctness else _DEFAULT_RELATIVE_MARGIN * abs(lowest)


def expected_difference(difference: float, variance: float, candidates: int = 1) -> float:
    """Expected true value of a positive difference, never below 0.

    Args:
        difference: Observed difference.
        variance: Its variance.
        candidates: Number of rows of which the one that the difference favours was selected, where they compete with
            the row in use; 1 for rows that compete with each other.
    """
    if difference <= 0:
        return 0.0
    selected = variance * (1 + math.log(max(1, candidates)) / 2)
    return difference * max(0.0, 1 - selected / difference**2)
