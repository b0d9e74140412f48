"""Rows of the leaderboard as pages show them, and the difference of two chosen ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.selection.row_difference import (
    RowDifference,
    compute_difference_over_seeds,
    find_compared_difference,
)
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import common_decimals, confidence_interval_over_seeds
from bln_search.reports.leaderboard_columns import LeaderboardView, ViewedRow
from bln_search.reports.metric_columns import MetricColumn, list_metric_columns
from bln_search.specs.problems import Problem
from service.caching.leaderboard_cache import CachedLeaderboard
from service.http.problems import ProblemException


@dataclass(frozen=True)
class RowWithConfidenceIntervals:
    """A row of the leaderboard with the confidence interval of each mean.

    Attributes:
        viewed: The row, with what the analysis says about it.
        figures: Confidence interval by the sort key of the column.
    """

    viewed: ViewedRow
    figures: dict[str, ConfidenceInterval | None]

    @property
    def row(self) -> LeaderboardRow:
        """The row."""
        return self.viewed.row

    @property
    def compared(self) -> ComparedRow | None:
        """The row's part of the comparison of all rows; None before the study is complete."""
        return self.viewed.compared


@dataclass(frozen=True)
class LeaderboardTableRow(RowWithConfidenceIntervals):
    """A line of the table.

    Attributes:
        key: Its name in links.
        parameters: Text by name of the parameters of its point.
        picture: The confidence interval on the scale of the page.
        pinned: Where else the row is, if it is shown above the others; empty for a row at its place.
    """

    key: str
    parameters: dict[str, str]
    picture: Markup
    pinned: str = ""


def list_shown_metrics(board: Leaderboard) -> list[MetricColumn]:
    """The metrics of the table: those on both splits, and under conditions those on the split that ranks."""
    return list_metric_columns(board, condition_splits=(board.ranked_on,))


def make_row_with_confidence_intervals(row: LeaderboardRow, view: LeaderboardView) -> RowWithConfidenceIntervals:
    """Return a row for the template. view: the leaderboard with its analysis."""
    figures = {
        column.sort_key: confidence_interval_over_seeds(column.value_of_row(row), row.seeds)
        for column in list_shown_metrics(view.board)
    }
    return RowWithConfidenceIntervals(view.view_row(row), figures)


def decimals_by_metric(rows: Iterable[RowWithConfidenceIntervals], board: Leaderboard) -> dict[str, int]:
    """Decimals of the values of each metric in a table of rows, by the sort key of its column."""
    listed = list(rows)
    return {
        column.sort_key: common_decimals((row.figures[column.sort_key] for row in listed), column.measure.name)
        for column in list_shown_metrics(board)
    }


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


@dataclass(frozen=True)
class ChosenRowsDifference:
    """Two rows and their differences.

    Attributes:
        first: The row that is subtracted.
        second: The other row.
        by_split: Second minus first by split, on the splits where both are measured; the split that ranks first.
        examples: Number of examples of the comparison of all rows; None before the study is complete.
        seeds: Seeds that both rows have.
    """

    first: LeaderboardRow
    second: LeaderboardRow
    by_split: dict[Split, RowDifference]
    examples: int | None
    seeds: int


def find_chosen_rows_difference(
    board: CachedLeaderboard, analysis: Analysis | None, texts: tuple[str, ...]
) -> ChosenRowsDifference | None:
    """Return the difference of two chosen rows, the one of better rank first; None for another number of rows.

    Raises:
        ProblemException: 422 if a text names no row, 404 if the leaderboard has no such row.
    """
    if len(texts) != 2:
        return None
    keys = [_parse_chosen_row_key(text) for text in texts]
    by_key = {row.key: (position, row) for position, row in enumerate(board.leaderboard.rows) if row.key in keys}
    for key, text in zip(keys, texts, strict=True):
        if key not in by_key:
            raise ProblemException(404, "not-found", f"this leaderboard has no row {text}")
    (_, first), (_, second) = sorted((by_key[key] for key in keys), key=lambda item: item[0])
    comparison = None if analysis is None else analysis.comparison
    ranked = board.leaderboard.ranked_on
    by_split = {}
    for split in sorted((Split.VALIDATION, Split.TEST), key=lambda split: split is not ranked):
        losses = [board.losses[split].get(row.key) for row in (first, second)]
        stored = (
            find_compared_difference(first.key, second.key, comparison) if _compares_on_split(analysis, split) else None
        )
        if stored is not None:
            by_split[split] = stored
        elif losses[0] and losses[1]:
            by_split[split] = compute_difference_over_seeds(losses[0], losses[1])
    examples = None if comparison is None else comparison.examples
    return ChosenRowsDifference(first, second, by_split, examples, min(first.seeds, second.seeds))


def _compares_on_split(analysis: Analysis | None, split: Split) -> bool:
    return analysis is not None and analysis.comparison is not None and analysis.comparison.split is split


def _parse_chosen_row_key(text: str) -> RowKey:
    try:
        return parse_row_key(text)
    except ValueError as error:
        message = f"{text!r} names no row: {error}"
        raise ProblemException(422, "invalid", message, [Problem(("row",), message)]) from None
