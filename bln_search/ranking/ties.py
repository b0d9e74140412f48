"""Which rows share the first place."""

from __future__ import annotations

import math
import statistics
from itertools import takewhile

from bln_search.ranking.groups import Losses
from bln_search.ranking.interval import holm, paired_p
from bln_search.ranking.leaderboard import Candidate

ALPHA = 0.05
MOST = 2_000
"""Rows compared with the first; of longer tables the best so many."""


def sharing_first(losses: dict[Candidate, Losses]) -> dict[Candidate, float] | None:
    """Rows that the seeds do not tell from the best one, each with its p; None where they can tell nothing.

    The best is the row of lowest mean loss among those with every seed. Every other is compared with it by Student's
    paired t test over seeds, p raised after Holm. The first that is told from the best ends the group, though one
    behind it may vary so much that its seeds tell nothing. A table of one seed tells nothing.
    """
    most = max((len(values) for values in losses.values()), default=0)
    full = {candidate: values for candidate, values in losses.items() if len(values) == most}
    if most < 2:
        return None
    means = {candidate: statistics.fmean(values.values()) for candidate, values in full.items()}
    ordered = sorted(means, key=means.__getitem__)[:MOST]
    best = full[ordered[0]]
    compared = ordered[1:]
    raw = [paired_p([full[one][seed] - best.get(seed, math.nan) for seed in sorted(full[one])]) for one in compared]
    adjusted = holm([1.0 if p is None or math.isnan(p) else p for p in raw])
    sharing = takewhile(lambda pair: pair[1] >= ALPHA, zip(compared, adjusted, strict=True))
    return {ordered[0]: 1.0, **dict(sharing)}
