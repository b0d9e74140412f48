"""The leaderboard page; its rows are also shown by other pages."""

from service.pages.leaderboard.rows import (
    RowWithConfidenceIntervals,
    decimals_by_metric,
    make_row_with_confidence_intervals,
)

__all__ = ["RowWithConfidenceIntervals", "decimals_by_metric", "make_row_with_confidence_intervals"]
