"""Select a row over several validation conditions.

Among the rows near the lowest value of a criterion, the cheapest that is independent of the mini-batch is preferred. A
row is near it under the two rules of `bln_search.ranking.selection.near_best`: at most one standard error of the
difference and 10 % above it; or at most 1 % above it by the upper end of the 95 % interval. For `regret`, which may be
0, these are shares of the mean over conditions of the lowest losses. The difference of two
values of `worst` or `regret` is that of the two losses that decide them; which conditions decide is taken as known
(delta method), so its interval is too narrow if two conditions of a row have almost equal losses. It serves the
preference only.

The row of the network as it is deployed is replaced only by a row that is significantly better on these networks (5 %):
examples vary, seeds do not. Holm's correction covers the rows that are compared with it; differences between other rows
play no part in this decision.

- `mean`: by the difference of the means over conditions.
- `worst`, `regret`: a row is better if there is a condition c in which the deployed row has a higher loss than the
  other row has in *any* condition. For given c all these differences must be significant, which needs no correction
  (intersection-union test, Berger 1982). As c is selected from C conditions, p is multiplied by C. For `regret`, losses
  are those above the lowest loss of their condition; which row has the lowest loss is taken as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.paired.condition_comparison import (
    check_equal_numbers_of_seeds_and_rows,
    relate_examples_of_conditions,
)
from bln_search.ranking.paired.crossed_anova import ContrastEstimates, merge_equal_rows
from bln_search.ranking.paired.sum_of_means import compare_sums_of_means_with_zero
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.selection.condition_criteria import (
    Criterion,
    compute_criterion_values,
    deciding_condition_by_row,
)
from bln_search.ranking.selection.near_best import is_near_best
from bln_search.ranking.statistics.intervals import ALPHA, adjust_p_values_by_holm


@dataclass(frozen=True)
class RowSelectedOverConditions:
    """The row selected over conditions.

    Attributes:
        row: Index of the selected row.
        best: Index of the row with the lowest value.
        near_best: Number of rows near the lowest value.
        excess: Its value minus the lowest value; 0 for the best row.
        excess_upper: Upper end of the 95 % confidence interval of `excess`; 0 for the best row.
        keeps_current: The row as deployed was kept because the preferred row is not significantly better; None where
            there is no such row.
        p_current: p value of the improvement over the row as deployed; None where there is none, or it is selected.
    """

    row: int
    best: int
    near_best: int
    excess: float
    excess_upper: float
    keeps_current: bool | None
    p_current: float | None


def select_row_over_conditions(
    tables: Sequence[OutcomeTable],
    criterion: Criterion,
    *,
    independent: Sequence[bool],
    computed: Sequence[int],
    current: int | None = None,
) -> RowSelectedOverConditions:
    """Select a row.

    Args:
        tables: Outcomes in each condition: the same rows and seeds.
        criterion: What is minimized.
        independent: Whether each row is independent of the mini-batch.
        computed: Number of statistics that each row computes from the mini-batch.
        current: Index of the row as deployed; None where there is none.

    Raises:
        DataError: The tables have different rows or seeds.
    """
    check_equal_numbers_of_seeds_and_rows(tables)
    losses = np.stack([table.losses.mean(axis=(0, 2), dtype=np.float64) for table in tables], axis=1)
    values = compute_criterion_values(losses, criterion)
    best = int(values.argmin())
    excesses = _excess_over_best_row(tables, losses, criterion, best)
    scale = losses.min(axis=0).mean() if criterion is Criterion.REGRET else values[best]
    near = [row for row in range(len(values)) if row == best or _is_near_best(excesses, row, float(scale))]
    preferred = min(near, key=lambda row: (not independent[row], computed[row], values[row], row))
    row, p_current = preferred, None
    if current is not None and preferred != current:
        of_networks = [table.average_over_seeds() for table in tables]
        p_current = float(_improvement_p_values(of_networks, losses, criterion, current)[preferred])
        row = preferred if p_current < ALPHA else current
    return RowSelectedOverConditions(
        row=row,
        best=best,
        near_best=len(near),
        excess=float(values[row] - values[best]),
        excess_upper=0.0 if row == best else float(excesses.mean[row] + excesses.half[row]),
        keeps_current=None if current is None else row == current,
        p_current=None if row == current else p_current,
    )


def _is_near_best(excesses: ContrastEstimates, row: int, lowest: float) -> bool:
    mean, half, p = (float(values[row]) for values in (excesses.mean, excesses.half, excesses.p))
    return is_near_best(excess=mean, excess_upper=mean + half, p=p, lowest=lowest)


def _excess_over_best_row(
    tables: Sequence[OutcomeTable], losses: Floats, criterion: Criterion, best: int
) -> ContrastEstimates:
    """Value of each row minus that of the best row, (K,)."""
    rows = np.arange(len(losses))
    if criterion is Criterion.MEAN:
        return compare_sums_of_means_with_zero(
            [(_losses_of_rows(table, rows) - _losses_of_rows(table, [best])) / len(tables) for table in tables],
            relate_examples_of_conditions(tables),
        )
    deciding = deciding_condition_by_row(losses, criterion)
    above = _CriterionLosses(tables, losses, criterion)
    result = ContrastEstimates(*(np.empty(len(losses)) for _ in range(4)))
    for condition in np.unique(deciding):
        members = np.flatnonzero(deciding == condition)
        part = above.compare_rows_of_two_conditions(members, int(condition), np.asarray([best]), int(deciding[best]))
        result.mean[members], result.half[members], result.p[members] = part.mean, part.half, part.p
    return result


def _improvement_p_values(tables: Sequence[OutcomeTable], losses: Floats, criterion: Criterion, current: int) -> Floats:
    """Corrected p value that each row is better than the current one, (K,); 1 for rows that are not."""
    rows = np.arange(len(losses))
    if criterion is Criterion.MEAN:
        gains = compare_sums_of_means_with_zero(
            [(_losses_of_rows(table, [current]) - _losses_of_rows(table, rows)) / len(tables) for table in tables],
            relate_examples_of_conditions(tables),
        )
        p = np.where(gains.mean > 0, gains.p, 1.0)
    else:
        p = _worst_loss_improvement_p_values(_CriterionLosses(tables, losses, criterion), len(tables), rows, current)
    row_of = merge_equal_rows(np.concatenate([table.losses for table in tables], axis=2))[0]
    others = row_of != row_of[current]
    p[~others] = 1.0
    p[others] = adjust_p_values_by_holm(p[others].tolist())
    return p


def _worst_loss_improvement_p_values(
    above: _CriterionLosses, conditions: int, rows: NDArray[np.intp], current: int
) -> Floats:
    """Intersection-union p value of each row for a lower highest loss than the current one, before Holm's correction.

    For each condition of the current row, the largest p value over the conditions of the other row; the least of them,
    times the number of conditions.
    """
    lowest = np.ones(len(rows))
    for condition in range(conditions):
        highest = np.zeros(len(rows))
        for other_condition in range(conditions):
            gains = above.compare_rows_of_two_conditions(np.asarray([current]), condition, rows, other_condition)
            highest = np.maximum(highest, np.where(gains.mean > 0, gains.p, 1.0))
        lowest = np.minimum(lowest, highest)
    p: Floats = np.minimum(1.0, lowest * conditions)
    return p


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
