"""The leaderboard as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.condition_metrics import SUMMARIES
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.reports.leaderboard_columns import Form, LeaderboardView
from bln_search.reports.leaderboard_table import build_table_columns, metric_columns_of_terminal
from bln_search.reports.metric_columns import MetricColumn, list_metric_columns
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning, find_unranked_reason, format_sentence
from bln_search.reports.tables.fitted_table import FittedTable

ComparedRows = Mapping[RowKey, ComparedRow]
_NOT_COMPARED: ComparedRows = {}


def leaderboard_table(
    board: Leaderboard,
    title: str = "",
    limit: int | None = None,
    compared: ComparedRows = _NOT_COMPARED,
    *,
    recommended: RowKey | None = None,
    level: float = ALPHA,
    all_columns: bool = False,
    has_details: bool = False,
    score: str = "",
) -> FittedTable:
    """Ranked rows, then rows without a rank.

    Args:
        board: The leaderboard.
        title: Title of the table.
        limit: Maximum number of rows; None for all.
        compared: Compared rows, whose verdicts are shown.
        recommended: Row to mark.
        level: Significance level of the verdicts.
        all_columns: Print columns that do not fit in further tables.
        has_details: The note on columns that do not fit mentions the option --details.
        score: What the loss is, with its unit; empty if it is not known.
    """
    rows = board.rows[:limit]
    warning = find_test_ranking_warning(board)
    view = LeaderboardView(board, compared, recommended)
    metrics = metric_columns_of_terminal(
        rows, _list_shown_metric_columns(board, all_columns=all_columns), board.ranked_on, score
    )
    return FittedTable(
        build_table_columns(list(map(view.view_row, rows)), Form.TERMINAL, metrics, level=level),
        title,
        [
            *([] if warning is None else [format_sentence(warning)]),
            *_hidden_conditions_note(board, all_columns=all_columns, has_details=has_details),
        ],
        [None if row.rank else "dim" for row in rows],
        all_columns=all_columns,
        has_details=has_details,
    )


def _list_shown_metric_columns(board: Leaderboard, *, all_columns: bool) -> list[MetricColumn]:
    """Metrics on clean images; under conditions only their mean and worst value on the split that ranks, or all."""
    if all_columns:
        return list_metric_columns(board)
    columns = list_metric_columns(board, condition_splits=(board.ranked_on,))
    return [column for column in columns if not column.condition or column.condition in SUMMARIES]


def _hidden_conditions_note(board: Leaderboard, *, all_columns: bool, has_details: bool) -> list[str]:
    """A line that names the conditions whose metrics are not shown."""
    if all_columns or not board.condition_names:
        return []
    more = ": --details shows the metrics of each" if has_details else ""
    return [f"Conditions: {', '.join(board.condition_names)}{more}."]


def unranked_reason_lines(board: Leaderboard) -> list[str]:
    """One line for each reason why rows have no rank, with the configurations it applies to."""
    rows_by_reason: dict[str, list[LeaderboardRow]] = {}
    for row in board.rows:
        reason = find_unranked_reason(row)
        if row.rank is None and reason:
            is_measured = row.state is EvaluationState.MEASURED and row.reason is not None
            rows_by_reason.setdefault(reason if is_measured else f"{row.state}: {reason}", []).append(row)
    return [f"no rank for {_configurations_text(rows)}: {reason}" for reason, rows in rows_by_reason.items()]


def _configurations_text(rows: list[LeaderboardRow]) -> str:
    return ", ".join(dict.fromkeys(str(row.configuration) for row in rows))
