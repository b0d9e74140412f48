"""Filter and sort the rows of a leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.ranking.condition_metrics import SUMMARIES
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.reports.metric_columns import find_metric_value, iter_metric_columns
from bln_search.specs.problems import Problem
from service.caching.leaderboard_cache import CachedLeaderboard
from service.http.problems import ProblemException
from service.results.parameter_filters import parse_parameter_filters


def filter_and_sort_rows(board: CachedLeaderboard, filters: Mapping[str, Any], sort: str) -> list[LeaderboardRow]:
    """Return the rows that match every filter, sorted.

    Args:
        board: The leaderboard.
        filters: Value by column (method, arm, batch_size, estimate, state); None for any. `deterministic` selects by
            independence of the mini-batch, `condition` rows that were measured under a condition, `parameter` a list of
            expressions such as `learning_rate<=0.1`.
        sort: `rank`, or a mean such as `test_loss`, or `test_loss:fog-3` under a condition; with a leading minus in
            descending order. Rows without a value are last.

    Raises:
        ProblemException: 422 if the study has no such condition, metric or parameter.
    """
    condition = filters.get("condition")
    _check_metric_exists(board, sort)
    _check_condition_exists(board, "sort", sort.partition(":")[2])
    _check_condition_exists(board, "condition", condition or "")
    methods = {arm.label: arm.method for arm in board.spec.arms}
    columns = {
        name: value for name, value in filters.items() if value is not None and name not in ("condition", "parameter")
    }
    rows = [row for row in board.leaderboard.rows if not columns or _matches_all_filters(board, row, methods, columns)]
    if condition:
        rows = [
            row
            for row in rows
            if row.conditions is not None and row.conditions.metrics_by_condition_or_summary.get(condition)
        ]
    if texts := filters.get("parameter"):
        rows = _filter_rows_by_parameters(board, rows, texts)
    if sort != "rank":  # the order of the leaderboard
        rows.sort(key=_make_sort_key(sort))
    if sort.startswith("-"):
        with_value = [row for row in rows if _find_sort_value(row, sort) is not None]
        rows = with_value[::-1] + [row for row in rows if _find_sort_value(row, sort) is None]
    return rows


def _matches_all_filters(
    board: CachedLeaderboard, row: LeaderboardRow, methods: dict[str, Method], filters: Mapping[str, Any]
) -> bool:
    columns = {
        "method": methods.get(row.arm),
        "arm": row.arm,
        "batch_size": row.batch_size,
        "estimate": row.estimate,
        "state": row.state,
        "deterministic": board.is_row_deterministic(row),
    }
    return all(columns[name] == value for name, value in filters.items())


def _filter_rows_by_parameters(
    board: CachedLeaderboard, rows: list[LeaderboardRow], texts: Sequence[str]
) -> list[LeaderboardRow]:
    parameters = board.point_parameter_parser
    required = parse_parameter_filters(texts, sorted(board.distinct_parameter_values))
    return [row for row in rows if all(item.matches(parameters(row.point)) for item in required)]


def _find_sort_value(row: LeaderboardRow, sort: str) -> float | None:
    name = sort.removeprefix("-")
    if name == "rank":
        return row.rank
    column, _, condition = name.partition(":")
    split, _, metric = column.partition("_")
    value = find_metric_value(row, Split(split), metric, condition)
    return None if value is None else value.mean


def _check_metric_exists(board: CachedLeaderboard, sort: str) -> None:
    """Raise ProblemException (422) unless the metric that orders the rows is one of the study's task."""
    column, _, condition = sort.removeprefix("-").partition(":")
    if column == "rank":
        return
    split, _, metric = column.partition("_")
    of_task = dict.fromkeys(
        (*(metric.name for metric in board.spec.metric_descriptions), *board.leaderboard.task_metric_names)
    )
    columns = iter_metric_columns(tuple(of_task), (condition,) if condition else (), has_train=True)
    choice = dict.fromkeys(
        of_split.measure.name for of_split in columns if of_split.split == split and of_split.condition == condition
    )
    if metric not in choice:
        message = f"rows cannot be ordered by {sort!r}: choose rank, or a split with one of {', '.join(choice)}"
        raise ProblemException(422, "invalid", message, [Problem(("sort",), message)])


def _check_condition_exists(board: CachedLeaderboard, query: str, condition: str) -> None:
    """Raise ProblemException (422) unless the condition that a query parameter names is one of the study."""
    names = board.spec.additional_condition_names
    if condition and condition not in (*names, *(SUMMARIES if names else ())):
        choice = f"choose one of {', '.join((*names, *SUMMARIES))}" if names else "the study has no conditions"
        message = f"there is no condition {condition!r}: {choice}"
        raise ProblemException(422, "invalid", message, [Problem((query,), message)])


def _make_sort_key(sort: str) -> Callable[[LeaderboardRow], tuple[bool, float]]:
    """Return the key function of a stable sort: rows with equal values keep the order of the leaderboard."""

    def key(row: LeaderboardRow) -> tuple[bool, float]:
        value = _find_sort_value(row, sort)
        return value is None, value or 0.0

    return key
