"""The leaderboard page; its rows are also shown by other pages."""

from service.pages.leaderboard.rows import DisplayRow, decimals_by_metric, make_display_row

__all__ = ["DisplayRow", "decimals_by_metric", "make_display_row"]
