"""Ranked tables for people, spreadsheets and programs."""

from bln_search.reports.export import leaderboard_csv, leaderboard_json
from bln_search.reports.table import leaderboard_table

__all__ = ["leaderboard_csv", "leaderboard_json", "leaderboard_table"]
