"""Rows near the best one: close enough in mean loss to be used in its place.

A row is near the best one if either of two conditions holds:

1. One-standard-error rule (Breiman, Friedman, Olshen & Stone 1984, chapter 3): its mean loss exceeds the lowest one by
   at most one standard error of the difference, by at most 10 % of the lowest loss, and does not differ significantly.
   The 10 % limit excludes rows with a large variance.
2. Negligible difference: the upper end of the 95 % confidence interval of the excess is at most 1 % of the lowest loss.

The absence of a significant difference alone does not make rows equivalent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedPair, ComparedRow, Comparison
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.statistics.intervals import ALPHA, paired_t_test_p_value_of_differences

_P_OF_ONE_STANDARD_ERROR = 0.32
"""Uncorrected p value of a difference of one standard error: 2Φ(−1)."""

_MAX_RELATIVE_EXCESS = 0.1
_NEGLIGIBLE_RELATIVE_EXCESS = 0.01


def list_rows_near_best(comparison: Comparison) -> list[ComparedRow]:
    """The best row and the rows near it."""
    best = comparison.rows[0]
    near = [best]
    for index, row in enumerate(comparison.rows[1:], start=1):
        pair = comparison.find_pair(0, index)
        if pair is not None and _is_pair_near_best(pair, best.loss):
            near.append(row)
    return near


def _is_pair_near_best(pair: ComparedPair, lowest: float) -> bool:
    return is_near_best(
        excess=-pair.loss.mean,
        excess_upper=-pair.loss.low,
        p=0.0 if pair.is_significant else pair.loss.p,
        lowest=lowest,
    )


def is_near_best(*, excess: float, excess_upper: float, p: float, lowest: float) -> bool:
    """Whether a value is near the lowest one.

    Args:
        excess: The value minus the lowest one.
        excess_upper: Upper end of the 95 % confidence interval of `excess`.
        p: Uncorrected p value of the difference; 0 for a significant one.
        lowest: The lowest value, which may be negative for a user-defined score.
    """
    scale = abs(lowest)
    within_one_error = p >= _P_OF_ONE_STANDARD_ERROR
    return (within_one_error and excess <= _MAX_RELATIVE_EXCESS * scale) or (
        excess_upper <= _NEGLIGIBLE_RELATIVE_EXCESS * scale
    )


def list_batch_sizes_near_best(
    row: ComparedRow, losses_by_size: Mapping[int, Mapping[RowKey, LossBySeed]], seeds: int
) -> tuple[int, ...]:
    """The mini-batch size at which the row was ranked, and others at which it is near the best row of that size.

    Args:
        row: The row.
        losses_by_size: Losses of every row at other inference mini-batch sizes. Keys hold that size.
        seeds: Number of seeds that a row must have at a size to be considered.
    """
    sizes = {row.batch_size}
    for size, losses in losses_by_size.items():
        complete = [by_seed for by_seed in losses.values() if len(by_seed) == seeds]
        of_row = losses.get(row.key._replace(batch_size=size))
        if of_row is not None and len(of_row) == seeds and _is_row_near_best_at_size(of_row, complete):
            sizes.add(size)
    return tuple(sorted(sizes))


def _is_row_near_best_at_size(of_row: LossBySeed, all_losses: Sequence[LossBySeed]) -> bool:
    """Whether the mean loss is the lowest, or at most 10 % above it without a significant difference over seeds.

    False where the seeds permit no test.
    """
    best = min(all_losses, key=lambda by_seed: fmean(by_seed.values()))
    if best is of_row:
        return True
    lowest = fmean(best.values())
    if best.keys() != of_row.keys() or fmean(of_row.values()) - lowest > _MAX_RELATIVE_EXCESS * abs(lowest):
        return False
    p = paired_t_test_p_value_of_differences([of_row[seed] - best[seed] for seed in sorted(of_row)])
    return p is not None and p >= ALPHA
