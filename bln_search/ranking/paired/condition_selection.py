"""Select a row over several validation conditions.

The rule is that of one condition (`bln_search.ranking.selection.expected_loss`), applied to the values of a criterion:
among the rows whose expected value is above the lowest by no more than the margin, the cheapest that is independent of
the mini-batch; the row of the network as it is deployed, where it is one of them or a change may do harm.

- `mean`: the difference of the means over conditions.
- `worst`, `regret`: the difference of the two losses that decide the values. Which conditions decide them, and for
  `regret` which row has the lowest loss of a condition, is taken as known (delta method). The variance is therefore too
  small if two conditions of a row have almost equal losses.

With a deployed row the question is about these networks: examples vary, seeds do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.paired.condition_comparison import (
    check_equal_numbers_of_seeds_and_rows,
    differences_of_condition_means,
    relate_examples_of_conditions,
)
from bln_search.ranking.paired.crossed_anova import ContrastEstimates
from bln_search.ranking.paired.difference_prior import estimate_difference_prior
from bln_search.ranking.paired.sum_of_means import compare_sums_of_means_with_zero
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.selection.condition_criteria import (
    Criterion,
    compute_criterion_values,
    deciding_condition_by_row,
)
from bln_search.ranking.selection.expected_loss import DifferencePrior, may_replace


@dataclass(frozen=True)
class RowSelectedOverConditions:
    """The row selected over conditions.

    Attributes:
        row: Index of the selected row.
        best: Index of the row with the lowest value.
        candidates: Number of rows whose expected value is above the lowest by no more than the margin.
        excess: Its value minus the lowest value; 0 for the best row.
        excess_upper: Upper end of the 95 % confidence interval of `excess`; 0 for the best row.
        keeps_current: Whether the row as deployed was kept; None where there is no such row.
    """

    row: int
    best: int
    candidates: int
    excess: float
    excess_upper: float
    keeps_current: bool | None


def select_row_over_conditions(
    tables: Sequence[OutcomeTable],
    criterion: Criterion,
    *,
    independent: Sequence[bool],
    computed: Sequence[int],
    margin: float,
    current: int | None = None,
) -> RowSelectedOverConditions:
    """Select a row.

    Args:
        tables: Outcomes in each condition: the same rows and seeds.
        criterion: What is minimized.
        independent: Whether each row is independent of the mini-batch.
        computed: Number of statistics that each row computes from the mini-batch.
        margin: Difference up to which values are practically equal.
        current: Index of the row as deployed; None where there is none.

    Raises:
        DataError: The tables have different rows or seeds.
    """
    check_equal_numbers_of_seeds_and_rows(tables)
    if current is not None:
        tables = [table.average_over_seeds() for table in tables]
    losses = np.stack([table.losses.mean(axis=(0, 2), dtype=np.float64) for table in tables], axis=1)
    values = compute_criterion_values(losses, criterion)
    best = int(values.argmin())
    excesses = _excess_over_best_row(tables, losses, criterion, best)

    candidates = [
        row
        for row in range(len(values))
        if excesses.prior.expected_difference(excesses.mean[row], excesses.variance[row]) <= margin
    ]
    row = min(candidates, key=lambda row: (not independent[row], computed[row], values[row], row))
    others = (len(values) - 1) * (1 if criterion is Criterion.MEAN else len(tables))  # the condition is selected, too
    if current is not None and excesses.prior.keeps_row_in_use(
        excesses.mean[current], excesses.variance[current], margin, others
    ):
        row = current
    elif current is not None and not may_replace(
        values[current] - values[row], (excesses.variance[current], excesses.variance[row]), margin
    ):
        row = best
    return RowSelectedOverConditions(
        row=row,
        best=best,
        candidates=len(candidates),
        excess=float(values[row] - values[best]),
        excess_upper=0.0 if row == best else float(excesses.mean[row] + excesses.half[row]),
        keeps_current=None if current is None else row == current,
    )


@dataclass(frozen=True)
class _Excesses:
    """Value of each row minus that of the best one, half of its 95 % interval, its variance, (K,) each; their prior."""

    mean: Floats
    half: Floats
    variance: Floats
    prior: DifferencePrior


def _excess_over_best_row(tables: Sequence[OutcomeTable], losses: Floats, criterion: Criterion, best: int) -> _Excesses:
    """Value of each row minus that of the best row, (K,)."""
    if criterion is Criterion.MEAN:
        of_means = differences_of_condition_means(tables, best, 0.0)
        return _Excesses(of_means.mean, of_means.half, of_means.variance, of_means.prior)
    deciding = deciding_condition_by_row(losses, criterion)
    above = _CriterionLosses(tables, losses, criterion)
    result = {name: np.empty(len(losses)) for name in ("mean", "half", "variance")}
    for condition in np.unique(deciding):
        members = np.flatnonzero(deciding == condition)
        part = above.compare_rows_of_two_conditions(members, int(condition), np.asarray([best]), int(deciding[best]))
        for name, values in result.items():
            values[members] = getattr(part, name)
    values = compute_criterion_values(losses, criterion)
    prior = estimate_difference_prior(values, np.delete(result["variance"], best))
    return _Excesses(**result, prior=prior)


class _CriterionLosses:
    """Losses that `worst` and `regret` compare: for `regret` above the lowest loss of their condition."""

    def __init__(self, tables: Sequence[OutcomeTable], losses: Floats, criterion: Criterion) -> None:
        self._tables = tables
        self._lowest: NDArray[np.intp] | None = losses.argmin(axis=0) if criterion is Criterion.REGRET else None

    def compare_rows_of_two_conditions(
        self, rows: NDArray[np.intp], condition: int, other_rows: NDArray[np.intp], other_condition: int
    ) -> ContrastEstimates:
        """Loss of `rows` in a condition minus that of `other_rows` in another one; one of both is a single row."""
        if condition == other_condition:
            table = self._tables[condition]
            return compare_sums_of_means_with_zero([_losses_of_rows(table, rows) - _losses_of_rows(table, other_rows)])
        losses, other_losses = (
            self._regret_or_loss_values(rows, condition),
            self._regret_or_loss_values(other_rows, other_condition),
        )
        count = max(len(rows), len(other_rows))
        return compare_sums_of_means_with_zero(
            [_repeat_for_contrasts(losses, count), _repeat_for_contrasts(-other_losses, count)],
            relate_examples_of_conditions([self._tables[condition], self._tables[other_condition]]),
        )

    def _regret_or_loss_values(self, rows: NDArray[np.intp], condition: int) -> Floats:
        values = _losses_of_rows(self._tables[condition], rows)
        return (
            values
            if self._lowest is None
            else values - _losses_of_rows(self._tables[condition], [self._lowest[condition]])
        )


def _losses_of_rows(table: OutcomeTable, rows: Sequence[int] | NDArray[np.intp]) -> Floats:
    """Losses of these rows, (S, rows, N)."""
    return table.losses[:, list(rows)].astype(np.float64)


def _repeat_for_contrasts(values: Floats, count: int) -> Floats:
    """Values (S, 1 or count, N) for each of `count` contrasts."""
    seeds, _, examples = values.shape
    return np.broadcast_to(values, (seeds, count, examples))
