"""Text about a leaderboard: the warning of its order, and reasons of rows without a rank."""

from __future__ import annotations

from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow

RANKED_ON_TEST = (
    "ranked on the test split: its figures were used to choose the first row, so those of the first row are "
    "optimistic (selection bias)"
)


def find_test_ranking_warning(board: Leaderboard) -> str | None:
    """What a reader must know before relying on the order, without a capital letter or full stop; None for nothing."""
    return RANKED_ON_TEST if board.is_ranked_on_test else None


def find_unranked_reason(row: LeaderboardRow) -> str | None:
    """Why a row has no rank; None for a ranked row."""
    missing = row.missing_seeds
    if missing is None:
        return row.reason
    return f"evaluated on {missing.split} under {missing.evaluated} of {missing.required} seeds"


def format_sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
