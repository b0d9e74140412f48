"""Mini-batch sizes at which a row is the best one or near it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.statistics.intervals import ALPHA, paired_t_test_p_value_of_differences

_MAX_RELATIVE_EXCESS = 0.1


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
