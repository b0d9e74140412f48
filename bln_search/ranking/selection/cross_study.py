"""The same configurations in several studies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.ranking.grouping import Losses
from bln_search.ranking.leaderboard import Candidate
from bln_search.ranking.statistics.intervals import Interval, interval_of, welch


@dataclass(frozen=True)
class Matched:
    """A row that several studies have: its loss in each (None where it has none), and its difference to the first."""

    candidate: Candidate
    losses: tuple[Interval | None, ...]
    differences: tuple[Interval | None, ...]


def match(studies: Sequence[dict[Candidate, Losses]], most: int) -> tuple[list[Matched], int]:
    """The first `most` rows that two studies or more have, and how many there are.

    Rows of the first study come first, the best of it at the top; then those of the second that it lacks, and so on.
    Differences are paired by seed where both rows have the same seeds: the same seed gives the same examples and first
    weights where data and network are alike, and pairing does no harm where they are not. Else they are Welch's.
    """
    counted: dict[Candidate, int] = {}
    for study in studies:
        for candidate in study:
            counted[candidate] = counted.get(candidate, 0) + 1
    shared = [candidate for candidate, n in counted.items() if n > 1]
    shared.sort(key=lambda candidate: _place(candidate, studies))
    return [_matched(candidate, studies) for candidate in shared[:most]], len(shared)


def _place(candidate: Candidate, studies: Sequence[dict[Candidate, Losses]]) -> tuple[int, float]:
    return next(
        (place, statistics.fmean(study[candidate].values()))
        for place, study in enumerate(studies)
        if candidate in study
    )


def _matched(candidate: Candidate, studies: Sequence[dict[Candidate, Losses]]) -> Matched:
    found = [study.get(candidate) for study in studies]
    first = found[0]
    return Matched(
        candidate,
        tuple(None if one is None else interval_of(list(one.values())) for one in found),
        tuple(None if one is None or first is None or one is first else _difference(one, first) for one in found),
    )


def _difference(one: Losses, first: Losses) -> Interval:
    if one.keys() == first.keys():
        return interval_of([one[seed] - first[seed] for seed in sorted(first)])
    return welch(list(one.values()), list(first.values()))
