"""Which rows are near enough to the best one to be used in its place.

Near is a row whose mean loss is above the lowest by no more than a standard error of that difference and a tenth of
the lowest; or, as far as the 95 % interval reaches, by no more than a hundredth of it. That two rows are not told
apart does not make them alike; the first is the rule of one standard error (Breiman, Friedman, Olshen & Stone 1984,
chapter 3), the tenth keeps it from rows that scatter much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from bln_search.ranking.comparison import ComparedPair, ComparedRow, Comparison
from bln_search.ranking.grouping import Losses
from bln_search.ranking.leaderboard import Candidate
from bln_search.ranking.statistics.intervals import ALPHA, paired_p

_ONE_ERROR = 0.32
"""p, before any correction, of a difference of one standard error: 2Φ(−1)."""

_TENTH, _HUNDREDTH = 0.1, 0.01


def near_best(comparison: Comparison) -> list[ComparedRow]:
    """The best row, and those near it."""
    best = comparison.rows[0]
    near = [best]
    for place, row in enumerate(comparison.rows[1:], start=1):
        pair = comparison.pair(0, place)
        if pair is not None and _is_near(pair, best.loss):
            near.append(row)
    return near


def _is_near(pair: ComparedPair, lowest: float) -> bool:
    more, most, size = -pair.loss.mean, -pair.loss.low, abs(lowest)  # a score of one's own may be negative
    close = pair.loss.p >= _ONE_ERROR and more <= _TENTH * size and not pair.apart
    return close or most <= _HUNDREDTH * size


def sizes_near_best(
    row: ComparedRow, at_sizes: Mapping[int, Mapping[Candidate, Losses]], seeds: int
) -> tuple[int, ...]:
    """The size it was ranked at, and others at which it is near the best row there."""
    sizes = {row.batch_size}
    arm, point, configuration, estimate, _ = row.candidate
    for size, losses in at_sizes.items():
        complete = [one for one in losses.values() if len(one) == seeds]
        own = losses.get((arm, point, configuration, estimate, size))
        if own is not None and len(own) == seeds and _holds(own, complete):
            sizes.add(size)
    return tuple(sorted(sizes))


def _holds(own: Losses, others: Sequence[Losses]) -> bool:
    """Is it the row of lowest mean loss, or by no more than a tenth above that and not told from it by its seeds?

    False where seeds can tell nothing.
    """
    best = min(others, key=lambda one: fmean(one.values()))
    if best is own:
        return True
    lowest = fmean(best.values())
    if best.keys() != own.keys() or fmean(own.values()) - lowest > _TENTH * abs(lowest):
        return False
    p = paired_p([own[seed] - best[seed] for seed in sorted(own)])
    return p is not None and p >= ALPHA
