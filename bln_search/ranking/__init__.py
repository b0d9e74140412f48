"""Rank the results of a study and compare rows statistically. Returns data; `bln_search.reports` writes the text."""

from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow, build_leaderboard_from_evaluations

__all__ = ["Leaderboard", "LeaderboardRow", "build_leaderboard_from_evaluations"]
