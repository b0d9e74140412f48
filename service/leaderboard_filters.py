"""Which rows of a ranked table are wanted, in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bln_search.core.configuration import Method
from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import LeaderboardRow
from service.leaderboard_cache import Board


def chosen_rows(board: Board, filters: Mapping[str, Any], sort: str) -> list[LeaderboardRow]:
    """The rows that fit every filter (method, arm, batch_size, estimate, state; None for any), sorted.

    sort: rank, or a mean such as test_loss; a minus turns it round; rows without that figure come last.
    """
    methods = {one.label: one.method for one in board.spec.arms}
    rows = [row for row in board.leaderboard.rows if _wanted(row, methods, filters)]
    rows.sort(key=_sort_key(sort))
    if sort.startswith("-"):
        measured = [row for row in rows if _figure(row, sort) is not None]
        rows = measured[::-1] + [row for row in rows if _figure(row, sort) is None]
    return rows


def _wanted(row: LeaderboardRow, methods: dict[str, Method], filters: Mapping[str, Any]) -> bool:
    found = {
        "method": methods.get(row.arm),
        "arm": row.arm,
        "batch_size": row.batch_size,
        "estimate": row.estimate,
        "state": row.state,
    }
    return all(value is None or found[name] == value for name, value in filters.items())


def _figure(row: LeaderboardRow, sort: str) -> float | None:
    name = sort.removeprefix("-")
    if name == "rank":
        return row.rank
    split, metric = name.split("_")
    figures = row.figures.get(Split(split))
    return None if figures is None else getattr(figures, metric).mean


def _sort_key(sort: str) -> Callable[[LeaderboardRow], tuple[bool, float]]:
    """The sort is stable: rows that are alike stay in the order of the table."""

    def key(row: LeaderboardRow) -> tuple[bool, float]:
        figure = _figure(row, sort)
        return figure is None, figure or 0.0

    return key
