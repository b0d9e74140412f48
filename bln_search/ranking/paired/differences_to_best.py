"""Every row of a table minus the row of lowest mean loss, and which rows no other row beats by the margin.

Rows with the same outcomes count as one row. Up to `_MAX_ROWS_OF_ALL_PAIRS` distinct rows all pairs are tested
together, which moderates variances and bounds the number of equal rows step by step. Of more rows, the pairs with the
best row and with preferred rows are, and a random sample of other pairs.

*Worse.* The best row is significantly better than *all* others if each of these tests rejects without correction: under
equal rows the gap between the first two is rarely that large (Gutmann & Maymin 1987). The corrected p values are
therefore at most the largest uncorrected one.

*Settled.* A row is settled if for each other row it is rejected that the other is better by the margin or more. For a
given row these tests need no correction (intersection-union test, Berger 1982). As the row is chosen, each has a share
of the error rate. Preferred rows, which are known before their losses are, share four fifths of it, because mostly one
of them is chosen. The rows that are not significantly worse than the best one share the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.paired.crossed_anova import (
    ContrastEstimates,
    ContrastVariances,
    contrast_variances_of_pairs,
)
from bln_search.ranking.paired.difference_prior import estimate_difference_prior
from bln_search.ranking.paired.distinct_rows import DistinctRows, find_distinct_rows
from bln_search.ranking.paired.seed_variances import Pairs
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.selection.expected_loss import DifferencePrior
from bln_search.ranking.statistics.intervals import ALPHA

_MAX_ROWS_OF_ALL_PAIRS = 48
_SAMPLED_PAIRS_PER_ROW = 2
PREFERRED_SHARE, _PREFERRED_WEIGHT = 0.8, 0.5
"""Parts of the error rate that preferred rows have: of being settled, and of practical equality to the best row."""

_MAX_PREFERRED_ROWS = 4
"""Number of preferred rows, of many rows, that are compared with each other row."""


def differences_to_best(
    table: OutcomeTable,
    metric: str,
    best: int,
    margin: float = 0.0,
    rows: DistinctRows | None = None,
    preferred: Sequence[bool] | None = None,
) -> DifferencesToBest:
    """Mean of each row minus that of row `best`, (K,); see `compare_rows_with_best`."""
    values = table.metric_values(metric)
    return compare_rows_with_best(
        rows or find_distinct_rows(values),
        best,
        lambda pairs: contrast_variances_of_pairs(values, metric, pairs),
        margin,
        preferred,
    )


@dataclass(frozen=True)
class DifferencesToBest(ContrastEstimates):
    """Mean of each row minus that of the best one, (K,).

    `adjusted` controls the family-wise error over all pairs of rows. `beyond_margin` is corrected over the rows by
    Holm's method with weights: preferred rows have half of it together.

    Attributes:
        better_by_margin: Corrected p value of another row being better by the margin or more; 1 where it is unknown.
        prior: Prior of true differences, estimated from the distinct rows.
    """

    better_by_margin: Floats
    prior: DifferencePrior


def compare_rows_with_best(
    rows: DistinctRows,
    best: int,
    contrasts_of_pairs: Callable[[Pairs], ContrastVariances],
    margin: float = 0.0,
    preferred: Sequence[bool] | None = None,
    *,
    with_intervals: bool = True,
) -> DifferencesToBest:
    """Mean of each row minus that of row `best`; rows equal to the best one have differences of exactly 0.

    Args:
        rows: The distinct rows.
        best: Index of the best row.
        contrasts_of_pairs: Returns the differences first − second of pairs of rows.
        margin: Difference up to which rows are practically equal.
        preferred: Whether each row is preferred, whatever its loss is, (K,); None where no row is.
        with_intervals: Whether to compute the intervals, which take half of the time; otherwise they are NaN.
    """
    of_best, num_rows = int(rows.of_row[best]), len(rows.kept)
    others = np.delete(np.arange(num_rows), of_best)
    is_equal = rows.of_row == of_best
    if not len(others):
        return _differences_of_equal_rows(len(rows.of_row))
    is_preferred = np.zeros(num_rows, np.bool_)
    if preferred is not None:
        is_preferred[rows.of_row[np.flatnonzero(preferred)]] = True
    pairs, num_complete = _list_pairs(num_rows, of_best, is_preferred)
    contrasts = contrasts_of_pairs((rows.kept[pairs[0]], rows.kept[pairs[1]]))
    tested = contrasts.test(
        pairs, num_rows, margin, sampled_from=num_complete, intervals=len(others) if with_intervals else 0
    )
    prior = estimate_difference_prior(np.append(tested.mean[: len(others)], 0.0), contrasts.variance[num_complete:])
    if num_complete:
        pairs = pairs[0][:num_complete], pairs[1][:num_complete]
        tested = tested.take(np.arange(num_complete))
    to_best = tested.take(np.arange(len(others)))
    adjusted = np.minimum(to_best.adjusted, to_best.p.max())
    shares = _share_of_each_row(is_preferred, np.ones(num_rows, np.bool_), _PREFERRED_WEIGHT)
    beyond = _adjust_by_weighted_holm(to_best.beyond_margin, shares[others] / shares[others].sum())
    is_rival = np.ones(num_rows, np.bool_)
    is_rival[others] = adjusted >= ALPHA
    better = _largest_p_of_a_better_row(tested, pairs, num_rows) / _share_of_each_row(
        is_preferred, is_rival, PREFERRED_SHARE
    )
    place = np.cumsum(np.arange(num_rows) != of_best) - 1  # of each distinct row among `others`

    def of_rows(column: Floats, of_equal: float) -> Floats:
        values: Floats = np.where(is_equal, of_equal, column[place[rows.of_row]])
        return values

    return DifferencesToBest(
        of_rows(to_best.mean, 0.0),
        of_rows(to_best.half, 0.0),
        of_rows(to_best.p, 1.0),
        of_rows(adjusted, 1.0),
        of_rows(to_best.variance, 0.0),
        of_rows(to_best.of_seeds, 0.0),
        of_rows(beyond, 0.0),
        of_rows(to_best.opposite_margin, 0.0),
        np.minimum(1.0, better)[rows.of_row],
        prior,
    )


def _largest_p_of_a_better_row(tested: ContrastEstimates, pairs: Pairs, num_rows: int) -> Floats:
    """Largest p value of another row being better by the margin or more; 1 for incomplete rows, (D,)."""
    first, second = pairs
    is_first_higher = tested.mean > 0
    counts = np.bincount(first, minlength=num_rows) + np.bincount(second, minlength=num_rows)
    largest = np.zeros(num_rows)
    np.maximum.at(largest, first, np.where(is_first_higher, tested.beyond_margin, tested.opposite_margin))
    np.maximum.at(largest, second, np.where(is_first_higher, tested.opposite_margin, tested.beyond_margin))
    complete: Floats = np.where(counts >= num_rows - 1, largest, 1.0)
    return complete


def _share_of_each_row(is_preferred: NDArray[np.bool_], is_rival: NDArray[np.bool_], for_preferred: float) -> Floats:
    """Share of the error rate of each distinct row: a part for the preferred ones, the rest for other rivals."""
    of_preferred, of_others = is_preferred.sum(), (is_rival & ~is_preferred).sum()
    part, rest = (for_preferred, 1 - for_preferred) if of_preferred and of_others else (1.0, 1.0)
    shares: Floats = np.where(is_preferred, part / max(1, of_preferred), rest / max(1, of_others))
    return shares


def _adjust_by_weighted_holm(p: Floats, shares: Floats) -> Floats:
    """p values adjusted to control the family-wise error rate, each with its share of it (Holm 1979)."""
    order = np.argsort(p / shares)
    left = np.cumsum(shares[order][::-1])[::-1]  # of the hypotheses that are not rejected before
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] / shares[order] * left))
    return adjusted


def row_verdicts(differences: DifferencesToBest, best: int, level: float) -> list[RowVerdict]:
    """What is known about each row beside the best one. differences: those of `compare_rows_with_best`."""
    verdicts = []
    for row, (beyond, adjusted) in enumerate(zip(differences.beyond_margin, differences.adjusted, strict=True)):
        if row == best:
            verdicts.append(RowVerdict.BEST)
        elif beyond < level:
            verdicts.append(RowVerdict.PRACTICALLY_EQUAL)
        else:
            verdicts.append(RowVerdict.WORSE if adjusted < level else RowVerdict.CANNOT_TELL)
    return verdicts


def _differences_of_equal_rows(count: int) -> DifferencesToBest:
    none, certain = np.zeros(count), np.ones(count)
    return DifferencesToBest(none, none, certain, certain, none, none, none, none, none, DifferencePrior(0.0))


def _list_pairs(num_rows: int, best: int, is_preferred: NDArray[np.bool_]) -> tuple[Pairs, int]:
    """Pairs of rows: each other row with the best one, then other pairs.

    Returns:
        The pairs; and of many rows the number of those before a random sample, 0 for all pairs.
    """
    others = np.delete(np.arange(num_rows), best)
    first, second = [others], [np.full(len(others), best)]
    if num_rows <= _MAX_ROWS_OF_ALL_PAIRS:
        lower, higher = np.triu_indices(len(others), 1)
        return (np.concatenate([*first, others[lower]]), np.concatenate([*second, others[higher]])), 0
    chosen = [row for row in np.flatnonzero(is_preferred)[:_MAX_PREFERRED_ROWS] if row != best]
    for index, row in enumerate(chosen):
        rest = others[~np.isin(others, chosen[: index + 1])]
        first.append(rest)
        second.append(np.full(len(rest), row))
    num_complete = sum(map(len, first))
    generator = np.random.default_rng(0)
    for order in (generator.permutation(others) for _ in range(_SAMPLED_PAIRS_PER_ROW)):
        first.append(order)
        second.append(np.roll(order, 1))
    return (np.concatenate(first), np.concatenate(second)), num_complete
