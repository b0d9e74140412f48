"""Finished results compared."""

from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, rank

__all__ = ["Leaderboard", "LeaderboardRow", "rank"]
