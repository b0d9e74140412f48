"""Rows that are equal by construction: a deterministic configuration at several mini-batch sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import LeaderboardRow

_RELATIVE_TOLERANCE = 1e-4
"""Relative difference of mean losses by which equal rows may differ: mini-batch sizes change the order of sums."""


@dataclass(frozen=True)
class RowGroup:
    """A row and the rows that equal it.

    Attributes:
        row: The first of the equal rows.
        batch_sizes: Their mini-batch sizes, in increasing order.
    """

    row: LeaderboardRow
    batch_sizes: tuple[int, ...]

    def contains(self, key: RowKey) -> bool:
        """Whether the key is that of one of the equal rows."""
        return key.batch_size in self.batch_sizes and self.row.key._replace(batch_size=key.batch_size) == key


def single_rows(rows: Iterable[LeaderboardRow]) -> list[RowGroup]:
    """Each row as a group of its own."""
    return [RowGroup(row, (row.batch_size,)) for row in rows]


def collapse_equal_rows(rows: Sequence[LeaderboardRow], split: Split) -> list[RowGroup]:
    """Join the rows of each deterministic configuration that differ in the mini-batch size alone, in the given order.

    Rows with different states, numbers of seeds or mean losses on `split` are not joined: they are not equal.
    """
    members: dict[RowKey, list[list[LeaderboardRow]]] = {}
    order: list[list[LeaderboardRow]] = []
    for row in rows:
        candidates = (
            members.setdefault(row.key._replace(batch_size=0), []) if row.configuration.is_deterministic else []
        )
        equal = next((group for group in candidates if _are_equal(group[0], row, split)), None)
        if equal is not None:
            equal.append(row)
            continue
        order.append([row])
        candidates.append(order[-1])
    return [RowGroup(group[0], tuple(sorted({row.batch_size for row in group}))) for group in order]


def _are_equal(first: LeaderboardRow, second: LeaderboardRow, split: Split) -> bool:
    if (first.state, first.seeds) != (second.state, second.seeds):
        return False
    losses = [row.metrics[split].loss.mean for row in (first, second) if split in row.metrics]
    return not losses or (len(losses) == 2 and math.isclose(*losses, rel_tol=_RELATIVE_TOLERANCE))
