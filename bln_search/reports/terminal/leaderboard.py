"""The leaderboard as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.condition_metrics import SUMMARIES
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.leaderboard_columns import (
    GAP,
    MetricColumn,
    format_mean,
    format_mean_and_deviation,
    list_metric_columns,
)
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning, find_unranked_reason, format_sentence
from bln_search.reports.terminal.columns import CellKind, Column
from bln_search.reports.terminal.fitted_table import FittedTable
from bln_search.reports.terminal.row_columns import (
    recommended_mark_column,
    row_identity_columns,
    verdict_column,
)

ComparedRows = Mapping[RowKey, ComparedRow]
_NOT_COMPARED: ComparedRows = {}

_SHORTEN_ORDER = {(False, "loss"): 1, (False, "accuracy"): 2, (True, "accuracy"): 4, (True, "loss"): 6}
"""Order in which metrics lose their deviation over seeds, within the order of `_DROP_ORDER`."""

_DROP_ORDER = {(False, "loss"): 3, (False, "accuracy"): 5, (True, "accuracy"): 8, (True, "loss"): 9}
"""Order in which metrics are dropped, by whether their split ranks the rows, and metric."""

_DROP_POPULATION, _DROP_VERDICT = 7, 10
_DROP_CONDITION = 0
"""Metrics under conditions are dropped before those on clean images, and lose their deviation before."""

_DROP_OF_TASK = {False: 2, True: 4}
"""Metrics of the task are dropped by whether their split ranks the rows; each loses its deviation before."""

_DROP_TRAIN = {"accuracy": -6, "loss": -4, GAP: -2}
"""Metrics that need the training split are dropped before all others; each loses its deviation before."""


def leaderboard_table(
    board: Leaderboard,
    title: str = "",
    limit: int | None = None,
    compared: ComparedRows = _NOT_COMPARED,
    *,
    recommended: RowKey | None = None,
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
        all_columns: Print columns that do not fit in further tables.
        has_details: The note on columns that do not fit mentions the option --details.
        score: What the loss is, with its unit; empty if it is not known.
    """
    rows = board.rows[:limit]
    warning = find_test_ranking_warning(board)
    columns = [
        recommended_mark_column([row.key == recommended for row in rows]),
        Column("rank", [str(row.rank) if row.rank else "–" for row in rows], CellKind.NUMBER, is_key=True),
        verdict_column(
            [None if (found := compared.get(row.key)) is None else found.verdict for row in rows], _DROP_VERDICT
        )
        if compared
        else None,
        *row_identity_columns([row.key for row in rows], _DROP_POPULATION),
        *(
            _build_metric_column(board, rows, column, score)
            for column in _list_shown_metric_columns(board, all_columns=all_columns)
        ),
        _state_column(rows),
        _seeds_column(rows),
    ]
    return FittedTable(
        [column for column in columns if column is not None],
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


def _build_metric_column(
    board: Leaderboard, rows: Sequence[LeaderboardRow], column: MetricColumn, score: str = ""
) -> Column:
    """Means over seeds with their deviation; the loss that ranks the rows is never dropped."""
    metric, is_ranking_split = column.metric, column.split is board.ranked_on
    ranks = is_ranking_split and metric == "loss" and not column.condition
    values = [column.value_of_row(row) for row in rows]
    has_deviation = any(value is not None and value.deviation is not None for value in values)
    name = column.heading
    shorten_order, drop_order = _shorten_and_drop_order(column, is_ranking_split=is_ranking_split)
    return Column(
        name,
        ["–" if value is None else format_mean_and_deviation(value, metric) for value in values],
        CellKind.NUMBER,
        heading=f"{name} ▲" if ranks else name,
        legend=_metric_legend(rows, score, has_deviation=has_deviation) if ranks else _column_legend(column),
        drop_order=None if ranks else drop_order,
        short_cells=["–" if value is None else format_mean(value, metric) for value in values]
        if has_deviation
        else None,
        shorten_order=drop_order if ranks else shorten_order,
        short_note=f"± of {name.removesuffix(' %')}",
    )


def _shorten_and_drop_order(column: MetricColumn, *, is_ranking_split: bool) -> tuple[int, int]:
    """Order in which a metric loses its deviation over seeds, and in which it is dropped."""
    if column.condition:
        return _DROP_CONDITION - 1, _DROP_CONDITION
    if column.split is Split.TRAIN or column.metric == GAP:
        drop_order = _DROP_TRAIN.get(column.metric, min(_DROP_TRAIN.values()))
        return drop_order - 1, drop_order
    if column.is_of_task:
        return _DROP_OF_TASK[is_ranking_split] - 1, _DROP_OF_TASK[is_ranking_split]
    return _SHORTEN_ORDER[is_ranking_split, column.metric], _DROP_ORDER[is_ranking_split, column.metric]


def _column_legend(column: MetricColumn) -> str:
    """What a generalization gap or a metric of the task is; empty for loss and accuracy."""
    return "gap: loss minus train loss" if column.metric == GAP else column.task_metric_legend


def _metric_legend(rows: Sequence[LeaderboardRow], score: str, *, has_deviation: bool) -> str:
    """What the loss is, over how many seeds metrics are means, what ± is, and which column ranks."""
    counts = {row.seeds for row in rows}
    seeds = "seeds" if len(counts) > 1 else "one seed" if counts == {1} else f"{counts.pop()} seeds"
    metrics = f"metrics: mean{' ± standard deviation' if has_deviation else ''} over {seeds}; ▲ ranks the rows"
    return f"loss: {score}; {metrics}" if score else metrics


def _state_column(rows: Sequence[LeaderboardRow]) -> Column:
    """States of rows without a value; empty where every row is measured."""
    return Column(
        "state", ["" if row.state is EvaluationState.MEASURED else str(row.state) for row in rows], CellKind.CODE
    )


def _seeds_column(rows: Sequence[LeaderboardRow]) -> Column | None:
    """Numbers of seeds; None where they are equal and the legend names them."""
    if len({row.seeds for row in rows}) < 2:
        return None
    return Column("seeds", [str(row.seeds) for row in rows], CellKind.NUMBER, drop_order=_DROP_POPULATION)


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
