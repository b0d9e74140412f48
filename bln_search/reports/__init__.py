"""Reports: sentences, tables, charts, exports and pages made from results."""

from bln_search.reports.export import leaderboard_csv, leaderboard_json
from bln_search.reports.terminal.leaderboard import leaderboard_table

__all__ = ["leaderboard_csv", "leaderboard_json", "leaderboard_table"]
