"""Which rows share the first place."""

from __future__ import annotations

import statistics
from itertools import takewhile

from bln_search.ranking.grouping import Losses
from bln_search.ranking.leaderboard import Candidate, Leaderboard
from bln_search.ranking.statistics.intervals import ALPHA, holm, paired_p

MOST = 2_000
"""Rows compared with the first; of longer tables the best so many."""


def sharing_first(losses: dict[Candidate, Losses]) -> dict[Candidate, float] | None:
    """Rows that the seeds do not tell from the best one, each with its p; None where they can tell nothing.

    The best is the row of lowest mean loss. Every other is compared with it by Student's paired t test over seeds, p
    raised after Holm; one with other seeds than the best cannot be compared (p = 1). The first that is told from the
    best ends the group, though one behind it may vary so much that its seeds tell nothing. No row, or a best row of one
    seed, tells nothing.
    """
    means = {candidate: statistics.fmean(values.values()) for candidate, values in losses.items()}
    ordered = sorted(means, key=means.__getitem__)[:MOST]
    if not ordered or len(losses[ordered[0]]) < 2:
        return None
    best, compared = losses[ordered[0]], ordered[1:]
    adjusted = holm([_p(losses[one], best) for one in compared])
    sharing = takewhile(lambda pair: pair[1] >= ALPHA, zip(compared, adjusted, strict=True))
    return {ordered[0]: 1.0, **dict(sharing)}


def first_place(board: Leaderboard, losses: dict[Candidate, Losses]) -> dict[Candidate, float] | None:
    """Ranked rows that the seeds do not tell from the best, each with its p; losses: on the split that decides."""
    return sharing_first({row.candidate: losses[row.candidate] for row in board.rows if row.rank is not None})


def _p(losses: Losses, best: Losses) -> float:
    if losses.keys() != best.keys():
        return 1.0
    found = paired_p([losses[seed] - best[seed] for seed in sorted(best)])
    return 1.0 if found is None else found
