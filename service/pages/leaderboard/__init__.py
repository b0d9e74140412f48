"""The leaderboard page; its rows are also shown by other pages."""

from service.pages.leaderboard.rows import DisplayRow, make_display_row

__all__ = ["DisplayRow", "make_display_row"]
