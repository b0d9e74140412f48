"""Compact letter display and simultaneous confidence intervals of ranks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from string import ascii_lowercase

Pair = tuple[int, int]
"""Indices of two rows, the better one first."""

_MAX_GROUPS = 500
"""Limit on the number of groups, which may grow exponentially with the number of rows."""


def groups_without_difference(rows: int, different: Collection[Pair]) -> list[frozenset[int]] | None:
    """Maximal groups of rows without a significant difference, ordered by their best rows.

    Insert-and-absorb algorithm (Piepho 2004): start with one group of all rows, split every group that contains a
    significantly different pair, and drop groups contained in others. Every row is in at least one group.

    Args:
        rows: Number of rows, numbered from the best one.
        different: Pairs that differ significantly.

    Returns:
        None where there are more than 500 groups.
    """
    groups: list[frozenset[int]] = [frozenset(range(rows))] if rows else []
    for first, second in sorted(different):
        split: list[frozenset[int]] = []
        for group in groups:
            both = first in group and second in group
            split += [group - {first}, group - {second}] if both else [group]
        groups = _drop_contained_groups(split)
        if len(groups) > _MAX_GROUPS:
            return None
    return sorted(groups, key=sorted)


def _drop_contained_groups(groups: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    maximal: list[frozenset[int]] = []
    for group in sorted(set(groups), key=len, reverse=True):
        if not any(group <= larger for larger in maximal):
            maximal.append(group)
    return maximal


def compact_letter_display(rows: int, different: Collection[Pair]) -> list[str] | None:
    """Letters of every row: rows differ significantly if and only if they share no letter. None for too many groups."""
    groups = groups_without_difference(rows, different)
    if groups is None:
        return None
    return [
        "".join(_letter_of_group(index) for index, group in enumerate(groups) if row in group) for row in range(rows)
    ]


def _letter_of_group(index: int) -> str:
    """a, b, … z, then (27), (28), …"""
    return ascii_lowercase[index] if index < len(ascii_lowercase) else f"({index + 1})"


def rank_interval_of_each_row(rows: int, different: Collection[Pair]) -> list[tuple[int, int]]:
    """Confidence interval of the rank of each row: from 1 + number of significantly better rows to K − number of worse.

    If the familywise error rate of the pairs is 5 %, the intervals hold simultaneously with 95 % (Mohamad, Goeman &
    van Zwet 2022).
    """
    better, worse = [0] * rows, [0] * rows
    for first, second in different:
        worse[first] += 1
        better[second] += 1
    return [(1 + better[row], rows - worse[row]) for row in range(rows)]
