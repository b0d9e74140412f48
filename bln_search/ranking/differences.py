"""The same configurations in several studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.ranking.groups import Losses
from bln_search.ranking.interval import Interval, interval_of, welch
from bln_search.ranking.leaderboard import Candidate


@dataclass(frozen=True)
class Matched:
    """A row that several studies have: its loss in each (None where it has none), and its difference to the first."""

    candidate: Candidate
    losses: tuple[Interval | None, ...]
    differences: tuple[Interval | None, ...]


def match(studies: Sequence[dict[Candidate, Losses]]) -> list[Matched]:
    """Rows that two studies or more have, best in the first study first.

    Seeds of different studies belong to trainings that share nothing, so differences are Welch's.
    """
    counted: dict[Candidate, int] = {}
    for study in studies:
        for candidate in study:
            counted[candidate] = counted.get(candidate, 0) + 1
    rows = [_matched(candidate, studies) for candidate, n in counted.items() if n > 1]
    return sorted(rows, key=lambda row: next((place, one.mean) for place, one in enumerate(row.losses) if one))


def _matched(candidate: Candidate, studies: Sequence[dict[Candidate, Losses]]) -> Matched:
    values = [list(study[candidate].values()) if candidate in study else None for study in studies]
    first = values[0]
    return Matched(
        candidate,
        tuple(None if one is None else interval_of(one) for one in values),
        tuple(None if one is None or first is None or one is first else welch(one, first) for one in values),
    )
