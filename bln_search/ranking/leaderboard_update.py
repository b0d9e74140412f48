"""Recompute the rows of a leaderboard whose results have changed, and keep all others."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection

from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, iter_ranks, make_leaderboard_row, row_sort_key
from bln_search.ranking.row_results import RowResults


def make_updated_leaderboard(
    board: Leaderboard, points: Collection[tuple[str, str]], results: RowResults, seeds: int
) -> Leaderboard:
    """The leaderboard of all results, from one of earlier ones; equals `build_leaderboard_from_results` of all of them.

    Args:
        board: Leaderboard of the earlier results, which is not changed.
        points: Arms and points whose results have changed.
        results: All results of these, by row.
        seeds: Number of seeds a ranked row must have.
    """
    split = board.ranked_on
    rows = [row for row in board.rows if (row.arm, row.point) not in points]
    for key, of_row in results.items():
        row = make_leaderboard_row(key, of_row, split, seeds)
        insort(rows, row, key=lambda other: row_sort_key(other, split))
    for position, (row, rank) in enumerate(zip(rows, iter_ranks(rows, split), strict=True)):
        if row.rank != rank:
            rows[position] = _copy_with_rank(row, rank)
    return Leaderboard(split, tuple(rows))


def _copy_with_rank(row: LeaderboardRow, rank: int | None) -> LeaderboardRow:
    """`dataclasses.replace`, which takes six times as long: most rows of a leaderboard may get another rank."""
    copied = object.__new__(LeaderboardRow)
    copied.__dict__.update(row.__dict__, rank=rank)
    return copied
