"""Rows of the leaderboard as pages show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import common_decimals, confidence_interval_over_seeds
from bln_search.reports.leaderboard_columns import MetricColumn, list_metric_columns
from service.caching.leaderboard_cache import CachedLeaderboard


@dataclass(frozen=True)
class RowWithConfidenceIntervals:
    """A row of the leaderboard with the confidence interval of each mean.

    Attributes:
        row: The row.
        figures: Confidence interval by the sort key of the column.
        compared: The row's part of the comparison of all rows; None before the study is complete.
    """

    row: LeaderboardRow
    figures: dict[str, ConfidenceInterval | None]
    compared: ComparedRow | None = None


def list_shown_metrics(board: Leaderboard) -> list[MetricColumn]:
    """The metrics of the table: those on both splits, and under conditions those on the split that ranks."""
    return list_metric_columns(board, condition_splits=(board.ranked_on,))


def metric_sort_parameter(column: MetricColumn) -> str:
    """The value of `sort` for a metric."""
    return f"{column.split}_{column.metric}" + (f":{column.condition}" if column.condition else "")


def make_row_with_confidence_intervals(
    row: LeaderboardRow, board: CachedLeaderboard, groups: Mapping[RowKey, ComparedRow]
) -> RowWithConfidenceIntervals:
    """Return a row for the template.

    Args:
        row: The row.
        board: The leaderboard.
        groups: The compared rows; empty before the study is complete.
    """
    figures = {
        metric_sort_parameter(column): confidence_interval_over_seeds(column.value_of_row(row), row.seeds)
        for column in list_shown_metrics(board.leaderboard)
    }
    return RowWithConfidenceIntervals(row, figures, groups.get(row.key))


def decimals_by_metric(rows: Iterable[RowWithConfidenceIntervals], board: Leaderboard) -> dict[str, int]:
    """Decimals of the values of each metric in a table of rows, by the sort key of its column."""
    listed = list(rows)
    return {
        metric_sort_parameter(column): common_decimals(
            (row.figures[metric_sort_parameter(column)] for row in listed), column.metric
        )
        for column in list_shown_metrics(board)
    }


def significantly_worse_row_keys(comparison: Comparison | None) -> frozenset[RowKey]:
    """The compared rows whose mean loss is significantly higher than the best row's."""
    if comparison is None:
        return frozenset()
    return frozenset(row.key for row in comparison.rows if row.is_worse)


def format_row_key(key: RowKey) -> str:
    """The identity of a row in a link."""
    return json.dumps(
        [key.arm, key.point, str(key.configuration), key.estimate, key.batch_size],
        separators=(",", ":"),
        ensure_ascii=False,
    )


def parse_row_key(text: str) -> RowKey:
    """Return the row that a link names. Raises ValueError for other text."""
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("the row is nested too deeply") from None
    if not isinstance(content, list) or len(content) != 5:
        raise ValueError("a row has five values")
    arm, point, configuration, estimate, batch_size = content
    if not all(isinstance(value, str) for value in (arm, point, configuration)) or type(batch_size) is not int:
        raise ValueError("the values of a row have other types")
    return RowKey(
        arm, point, InferenceConfiguration(configuration), None if estimate is None else str(estimate), batch_size
    )
