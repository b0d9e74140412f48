"""The top group of a leaderboard by paired t tests over seeds, used until rows are compared over examples."""

from __future__ import annotations

import statistics
from itertools import islice, takewhile

from bln_search.core.records import RowKey
from bln_search.ranking.grouping import LossBySeed
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.statistics.intervals import ALPHA, adjust_p_values_by_holm, paired_t_test_p_value_of_differences

MAX_TESTED_ROWS = 2_000
"""Number of rows, from the best one down, that are compared with the best one."""


def find_top_group_with_p_values(losses: dict[RowKey, LossBySeed]) -> dict[RowKey, float] | None:
    """The best row and the rows below it, up to the first that differs significantly from it, each with its p value.

    The best row is that of lowest mean loss. Every other row is compared with it by Student's paired t test over seeds,
    with Holm's correction. A row with other seeds than the best one cannot be compared (p = 1). The first significant
    difference ends the group, although a row below it may vary so much that its difference is not significant.

    Returns:
        None where no test is possible: there is no row, or the best row has one seed.
    """
    means = {key: statistics.fmean(by_seed.values()) for key, by_seed in losses.items()}
    ordered = sorted(means, key=means.__getitem__)[:MAX_TESTED_ROWS]
    if not ordered or len(losses[ordered[0]]) < 2:
        return None
    best, others = losses[ordered[0]], ordered[1:]
    adjusted = adjust_p_values_by_holm([_paired_p_value_against_best(losses[key], best) for key in others])
    not_different = takewhile(lambda pair: pair[1] >= ALPHA, zip(others, adjusted, strict=True))
    return {ordered[0]: 1.0, **dict(not_different)}


def find_leaderboard_top_group(board: Leaderboard, losses: dict[RowKey, LossBySeed]) -> dict[RowKey, float] | None:
    """`find_top_group_with_p_values` of the ranked rows. losses: on the split that decides the ranking."""
    ranked = islice((row.key for row in board.rows if row.rank is not None), MAX_TESTED_ROWS)  # by mean loss
    return find_top_group_with_p_values({key: losses[key] for key in ranked})


def _paired_p_value_against_best(losses: LossBySeed, best: LossBySeed) -> float:
    if losses.keys() != best.keys():
        return 1.0
    p = paired_t_test_p_value_of_differences([losses[seed] - best[seed] for seed in sorted(best)])
    return 1.0 if p is None else p
