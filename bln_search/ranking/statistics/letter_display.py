"""Which rows cannot be told apart: letters, and the ranks each row may have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from string import ascii_lowercase

Pair = tuple[int, int]
"""Two rows by their place, the upper one first."""

_MOST = 500
"""Groups beyond which letters help nobody; their number may grow exponentially with the rows."""


def letter_groups(rows: int, apart: Collection[Pair]) -> list[frozenset[int]] | None:
    """Largest groups of rows none of which is told from another, best first; every row is in one at least.

    The insert-and-absorb algorithm (Piepho 2004): start with one group of all, split every group that holds a pair that
    is apart, drop groups inside others. Rows are numbered from the best one down. None where there are too many.
    """
    groups: list[frozenset[int]] = [frozenset(range(rows))] if rows else []
    for first, second in sorted(apart):
        split: list[frozenset[int]] = []
        for group in groups:
            both = first in group and second in group
            split += [group - {first}, group - {second}] if both else [group]
        groups = _largest(split)
        if len(groups) > _MOST:
            return None
    return sorted(groups, key=sorted)


def _largest(groups: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    kept: list[frozenset[int]] = []
    for group in sorted(set(groups), key=len, reverse=True):
        if not any(group <= larger for larger in kept):
            kept.append(group)
    return kept


def letters(rows: int, apart: Collection[Pair]) -> list[str] | None:
    """The letters of every row: two rows that share one are not told apart, two that share none are."""
    groups = letter_groups(rows, apart)
    if groups is None:
        return None
    return ["".join(_name(place) for place, group in enumerate(groups) if row in group) for row in range(rows)]


def _name(place: int) -> str:
    """a, b, … z, then (27), (28), …"""
    return ascii_lowercase[place] if place < len(ascii_lowercase) else f"({place + 1})"


def rank_intervals(rows: int, apart: Collection[Pair]) -> list[tuple[int, int]]:
    """Lowest and highest rank that each row may have: 1 + rows told to be better, K − rows told to be worse.

    Where the pairs that are apart hold together with 95 %, so do all these intervals (Mohamad, Goeman & van Zwet 2022).
    """
    better, worse = [0] * rows, [0] * rows
    for first, second in apart:
        worse[first] += 1
        better[second] += 1
    return [(1 + better[row], rows - worse[row]) for row in range(rows)]
