"""Every row of a table minus the row of lowest mean loss.

Rows with the same outcomes count as one row. Up to `_MAX_ROWS_OF_ALL_PAIRS` distinct rows all pairs are tested
together, which moderates variances and bounds the number of equal rows step by step. Of more rows, the pairs with the
best row and a random sample of other pairs are.

The best row is significantly better than *all* others if each of these tests rejects without correction: under equal
rows the gap between the first two is rarely that large (Gutmann & Maymin 1987). The corrected p values are therefore at
most the largest uncorrected one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.paired.crossed_anova import (
    ContrastEstimates,
    ContrastVariances,
    contrast_variances_of_pairs,
)
from bln_search.ranking.paired.distinct_rows import DistinctRows, find_distinct_rows
from bln_search.ranking.paired.seed_variances import Pairs
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import ALPHA

_MAX_ROWS_OF_ALL_PAIRS = 48
_SAMPLED_PAIRS_PER_ROW = 2


def differences_to_best(
    table: OutcomeTable,
    metric: str,
    best: int,
    margin: float = 0.0,
    rows: DistinctRows | None = None,
    preferred: Sequence[bool] | None = None,
) -> ContrastEstimates:
    """Mean of each row minus that of row `best`, (K,); see `compare_rows_with_best`."""
    values = table.metric_values(metric)
    return compare_rows_with_best(
        rows or find_distinct_rows(values),
        best,
        lambda pairs: contrast_variances_of_pairs(values, metric, pairs),
        margin,
        preferred,
    )


def compare_rows_with_best(
    rows: DistinctRows,
    best: int,
    contrasts_of_pairs: Callable[[Pairs], ContrastVariances],
    margin: float = 0.0,
    preferred: Sequence[bool] | None = None,
) -> ContrastEstimates:
    """Mean of each row minus that of row `best`, (K,).

    `adjusted` controls the family-wise error over all pairs of rows, and `beyond_margin` is corrected over the rows by
    Holm's method with weights: rows that are preferred before their losses are known share half of the error rate.
    `opposite_margin` is multiplied by the number of other rows that are not significantly worse (Bonferroni): any of
    them may have been observed as the best one instead. Rows equal to the best one have differences of exactly 0.

    Args:
        rows: The distinct rows.
        best: Index of the best row.
        contrasts_of_pairs: Returns the differences first − second of pairs of rows.
        margin: Difference up to which rows are practically equal.
        preferred: Whether each row is preferred, whatever its loss is, (K,); None where no row is.
    """
    of_best, num_rows = int(rows.of_row[best]), len(rows.kept)
    others = np.delete(np.arange(num_rows), of_best)
    place = np.cumsum(np.arange(num_rows) != of_best) - 1  # of each distinct row among `others`
    if not len(others):
        return _differences_of_equal_rows(len(rows.of_row))
    pairs = _list_pairs(num_rows, of_best)
    contrasts = contrasts_of_pairs((rows.kept[pairs[0]], rows.kept[pairs[1]]))
    is_sample = num_rows > _MAX_ROWS_OF_ALL_PAIRS
    tested = contrasts.test(pairs, num_rows, margin, sampled_from=len(others) if is_sample else 0)
    tested = tested.take(np.arange(len(others)))
    adjusted = np.minimum(tested.adjusted, tested.p.max())
    beyond = _adjust_by_weighted_holm(tested.beyond_margin, _share_of_each_row(rows, others, preferred))
    is_equal = rows.of_row == of_best

    def of_rows(column: Floats, of_equal: float) -> Floats:
        values: Floats = np.where(is_equal, of_equal, column[place[rows.of_row]])
        return values

    return ContrastEstimates(
        of_rows(tested.mean, 0.0),
        of_rows(tested.half, 0.0),
        of_rows(tested.p, 1.0),
        of_rows(adjusted, 1.0),
        of_rows(tested.variance, 0.0),
        of_rows(tested.of_seeds, 0.0),
        of_rows(beyond, 0.0),
        of_rows(np.minimum(1.0, max(1, int((adjusted >= ALPHA).sum())) * tested.opposite_margin), 0.0),
    )


def _share_of_each_row(rows: DistinctRows, others: NDArray[np.intp], preferred: Sequence[bool] | None) -> Floats:
    """Share of the error rate of each distinct row other than the best one."""
    is_preferred = np.zeros(len(rows.kept), np.bool_)
    if preferred is not None:
        is_preferred[rows.of_row[np.flatnonzero(preferred)]] = True
    chosen = is_preferred[others]
    if chosen.all() or not chosen.any():
        return np.full(len(others), 1 / len(others))
    shares: Floats = np.where(chosen, 0.5 / chosen.sum(), 0.5 / (~chosen).sum())
    return shares


def _adjust_by_weighted_holm(p: Floats, shares: Floats) -> Floats:
    """p values adjusted to control the family-wise error rate, each with its share of it (Holm 1979)."""
    order = np.argsort(p / shares)
    left = np.cumsum(shares[order][::-1])[::-1]  # of the hypotheses that are not rejected before
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] / shares[order] * left))
    return adjusted


def row_verdicts(differences: ContrastEstimates, best: int, level: float) -> list[RowVerdict]:
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


def _differences_of_equal_rows(count: int) -> ContrastEstimates:
    none, certain = np.zeros(count), np.ones(count)
    return ContrastEstimates(none, none, certain, certain, none, none, none, none)


def _list_pairs(num_rows: int, best: int) -> Pairs:
    """Pairs of rows: first each other row with the best one, then other pairs, all of them or a sample."""
    others = np.delete(np.arange(num_rows), best)
    if num_rows <= _MAX_ROWS_OF_ALL_PAIRS:
        first, second = np.triu_indices(len(others), 1)
    else:
        generator = np.random.default_rng(0)
        orders = [generator.permutation(len(others)) for _ in range(_SAMPLED_PAIRS_PER_ROW)]
        first, second = (np.concatenate([np.roll(order, shift) for order in orders]) for shift in (0, 1))
    return (
        np.concatenate([others, others[first]]),
        np.concatenate([np.full(len(others), best), others[second]]),
    )
