"""Test a network against its baseline in each condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.api.not_worse.paired_outcomes import PairedOutcomes
from bln_search.api.not_worse.report import ComparedCondition
from bln_search.core.errors import DataError
from bln_search.ranking.paired.non_inferiority import MarginTest, NotWorseVerdict, PairedDifferences, judge_conditions
from bln_search.ranking.paired.table import Floats
from bln_search.ranking.selection.expected_loss import DEFAULT_MARGIN, default_margin

_IDENTICAL = MarginTest(NotWorseVerdict.NOT_WORSE, 0.0, 0.0, 0.0, 0.0, 1.0, 0, None)
"""Result for networks with identical outputs."""

_NOT_FINITE = MarginTest(NotWorseVerdict.WORSE, math.nan, math.nan, math.nan, 1.0, 0.0, 0, None)
"""Result for a network with losses that are not finite."""


@dataclass(frozen=True)
class ConditionData:
    """What a condition is tested with.

    Attributes:
        name: Its name.
        losses: Losses of the network and of the baseline, (2, N); errors of 0 and 1 if accuracies are compared.
        outcomes: The outcomes that they are from.
        margin: Difference from which on the network is worse.
        metric: `loss` or `accuracy`.
        are_dependent: Whether the examples of a mini-batch depend on each other.
    """

    name: str
    losses: Floats
    outcomes: PairedOutcomes
    margin: float
    metric: str
    are_dependent: bool

    @staticmethod
    def of_outcomes(
        name: str,
        outcomes: PairedOutcomes,
        margin: float | None,
        *,
        metric: str,
        has_correctness: bool,
        are_dependent: bool,
    ) -> ConditionData:
        """Choose losses or errors, and the margin where none is given.

        Raises:
            DataError: A loss of the baseline is not finite.
        """
        losses = outcomes.losses
        if metric == "accuracy":  # an infinite loss is that of a prediction, NaN is none
            losses = np.where(np.isnan(losses), np.nan, 1.0 - outcomes.correct)
        is_finite = np.isfinite(losses[1])
        if not is_finite.all():
            raise DataError(
                f"the loss of baseline is not finite for {(~is_finite).sum():,} of {len(is_finite):,} examples of "
                f"{name}, first for example {is_finite.argmin()}: no network can be compared with it"
            )
        if margin is None and metric == "accuracy":
            margin = DEFAULT_MARGIN
        elif margin is None:
            mean = float(np.average(losses[1], weights=outcomes.weights))
            margin = default_margin(mean, has_correctness=has_correctness)
        return ConditionData(name, losses, outcomes, margin, metric, are_dependent)

    @property
    def not_finite(self) -> NDArray[np.bool_]:
        """Whether the loss of the network is not finite, (N,)."""
        is_not_finite: NDArray[np.bool_] = ~np.isfinite(self.losses[0])
        return is_not_finite

    @property
    def known_result(self) -> MarginTest | None:
        """The result where no test is needed."""
        if self.outcomes.are_identical:
            return _IDENTICAL
        return _NOT_FINITE if self.not_finite.any() else None

    @property
    def differences(self) -> PairedDifferences:
        """By how much the network is worse on each unit. The scale of losses is their range."""
        return PairedDifferences.of_examples(
            self.losses[0] - self.losses[1],
            self.outcomes.weights,
            self.outcomes.batches if self.are_dependent else None,
            scale=1.0 if self.metric == "accuracy" else float(np.ptp(self.losses)) or 1.0,
        )

    def describe(self, test: MarginTest) -> ComparedCondition:
        """The condition with its result."""
        means = np.average(self.losses, axis=1, weights=self.outcomes.weights)
        difference, low, high = test.mean, test.low, test.high
        if self.metric == "accuracy":
            means, difference, low, high = 1 - means, -difference, -high, -low
        return ComparedCondition(
            name=self.name,
            verdict=test.verdict,
            model=float(means[0]),
            baseline=float(means[1]),
            difference=difference + 0.0,  # no negative zero
            low=low + 0.0,
            high=high + 0.0,
            p_not_worse=test.p_not_worse,
            p_worse=test.p_worse,
            margin=self.margin,
            examples=self.outcomes.examples,
            mini_batches=len(np.unique(self.outcomes.batches)) if self.are_dependent else None,
            are_identical=self.outcomes.are_identical,
            not_finite=int(self.not_finite.sum()),
            required=test.required and math.ceil(test.required * self.outcomes.examples / test.units),
        )


def judge_all(conditions: Sequence[ConditionData]) -> tuple[ComparedCondition, ...]:
    """Test all conditions together."""
    results = [each.known_result for each in conditions]
    undecided = [each for each, result in zip(conditions, results, strict=True) if result is None]
    tests = iter(judge_conditions([each.differences for each in undecided], [each.margin for each in undecided]))
    return tuple(
        each.describe(next(tests) if result is None else result)
        for each, result in zip(conditions, results, strict=True)
    )
