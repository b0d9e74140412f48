"""Rows that are equal by construction: a deterministic configuration at several mini-batch sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.row_cost import is_deterministic_configuration
from bln_search.reports.leaderboard_columns import BatchSizes

_RELATIVE_TOLERANCE = 1e-4
"""Relative difference of mean losses by which equal rows may differ: mini-batch sizes change the order of sums."""


@dataclass(frozen=True)
class EqualRowsGroup:
    """A row and the rows that equal it.

    Attributes:
        row: The first of the equal rows.
        batch_sizes: Their mini-batch sizes, in increasing order.
    """

    row: LeaderboardRow
    batch_sizes: tuple[int, ...]

    def contains(self, key: RowKey) -> bool:
        """Whether the key is that of one of the equal rows."""
        return key.batch_size in self.batch_sizes and self.row.key.with_batch_size(key.batch_size) == key


class DistinctRows:
    """Rows of which each stands for the rows that equal it.

    A leaderboard has up to hundreds of thousands of rows, a page shows fifty: only these become groups.

    Args:
        rows: The rows, in the order of the list.
        batch_sizes: Mini-batch sizes of a row that stands for several, in increasing order.
    """

    def __init__(self, rows: Sequence[LeaderboardRow], batch_sizes: BatchSizes) -> None:
        self.rows, self.batch_sizes = rows, batch_sizes

    def __len__(self) -> int:
        return len(self.rows)

    def list_groups(self, start: int = 0, end: int | None = None) -> list[EqualRowsGroup]:
        """The rows from `start` up to `end`, with the mini-batch sizes of each."""
        return [EqualRowsGroup(row, self.batch_sizes.get(row.key, (row.batch_size,))) for row in self.rows[start:end]]


def make_distinct_rows(
    rows: Sequence[LeaderboardRow], split: Split, *, collapse: bool, per_slot: bool = False
) -> DistinctRows:
    """Join the rows of each deterministic configuration that differ in the mini-batch size alone, in the given order.

    Rows with different states, numbers of seeds or mean losses on `split` are not joined: they are not equal.

    Args:
        rows: The rows.
        split: Split that ranks.
        collapse: Whether equal rows are joined.
        per_slot: Whether the population has a value for each position in the mini-batch, so that a configuration that
            reads it depends on the mini-batch size.
    """
    if not collapse or len({row.batch_size for row in rows}) < 2:
        return DistinctRows(rows, {})
    members: dict[RowKey, list[list[LeaderboardRow]]] = {}
    distinct: list[LeaderboardRow] = []
    for row in rows:
        if not is_deterministic_configuration(row.configuration, per_slot=per_slot):
            distinct.append(row)
            continue
        candidates = members.setdefault(row.key.with_batch_size(0), [])
        equal = next((group for group in candidates if _are_rows_equal(group[0], row, split)), None)
        if equal is None:
            distinct.append(row)
            candidates.append([row])
        else:
            equal.append(row)
    joined = (group for candidates in members.values() for group in candidates if len(group) > 1)
    return DistinctRows(distinct, {group[0].key: tuple(sorted({row.batch_size for row in group})) for group in joined})


def _are_rows_equal(first: LeaderboardRow, second: LeaderboardRow, split: Split) -> bool:
    if (first.state, first.seeds) != (second.state, second.seeds):
        return False
    losses = [row.metrics[split].loss.mean for row in (first, second) if split in row.metrics]
    return not losses or (len(losses) == 2 and math.isclose(*losses, rel_tol=_RELATIVE_TOLERANCE))
