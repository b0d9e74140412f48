"""The leaderboard page; its rows are also shown by other pages."""

from service.pages.leaderboard.rows import DisplayRow, display_row

__all__ = ["DisplayRow", "display_row"]
