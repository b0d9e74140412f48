"""The leaderboard as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedRow
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.reports.leaderboard_columns import (
    SPLIT_METRICS,
    mean_and_deviation,
    mean_only,
    metric_of,
)
from bln_search.reports.sentences.leaderboard import leaderboard_warning, row_reason, sentence
from bln_search.reports.terminal.fitted_table import Column, FittedTable, Kind
from bln_search.reports.terminal.row_columns import recommended_column, row_identity_columns, significance_column

ComparedRows = Mapping[RowKey, ComparedRow]
_NOT_COMPARED: ComparedRows = {}

_SHORTEN_ORDER = {
    (Split.VALIDATION, "accuracy"): 1,
    (Split.TEST, "accuracy"): 2,
    (Split.TEST, "loss"): 4,
    (Split.VALIDATION, "loss"): 6,
}
"""Order in which metrics lose their deviation over seeds, within the order of `_DROP_ORDER`."""

_DROP_ORDER = {
    (Split.VALIDATION, "accuracy"): 3,
    (Split.TEST, "loss"): 5,
    (Split.TEST, "accuracy"): 8,
    (Split.VALIDATION, "loss"): 9,
}
_DROP_POPULATION, _DROP_GROUP = 7, 10


def leaderboard_table(
    board: Leaderboard,
    title: str = "",
    limit: int | None = None,
    compared: ComparedRows = _NOT_COMPARED,
    *,
    recommended: RowKey | None = None,
    all_columns: bool = False,
    has_details: bool = False,
) -> FittedTable:
    """Ranked rows, then rows without a rank.

    Args:
        board: The leaderboard.
        title: Title of the table.
        limit: Maximum number of rows; None for all.
        compared: Compared rows, whose groups are shown.
        recommended: Row to mark.
        all_columns: Print columns that do not fit in further tables.
        has_details: The note on columns that do not fit mentions the option --details.
    """
    rows = board.rows[:limit]
    warning = leaderboard_warning(board)
    columns = [
        recommended_column([row.key == recommended for row in rows]),
        Column("rank", [str(row.rank) if row.rank else "–" for row in rows], Kind.NUMBER, is_key=True),
        significance_column([compared.get(row.key) for row in rows], _DROP_GROUP) if compared else None,
        *row_identity_columns([row.key for row in rows], _DROP_POPULATION),
        *(_metric_column(board, rows, split, metric) for split, metric in SPLIT_METRICS),
        _state_column(rows),
        _seeds_column(rows),
    ]
    return FittedTable(
        [column for column in columns if column is not None],
        title,
        [] if warning is None else [sentence(warning)],
        [None if row.rank else "dim" for row in rows],
        all_columns=all_columns,
        has_details=has_details,
    )


def _metric_column(board: Leaderboard, rows: Sequence[LeaderboardRow], split: Split, metric: str) -> Column:
    """Means over seeds with their deviation; the loss that ranks the rows is never dropped."""
    ranks = split is board.ranked_on and metric == "loss"
    values = [metric_of(row, split, metric) for row in rows]
    has_deviation = any(value is not None and value.deviation is not None for value in values)
    name = f"{split} {metric}" + (" %" if metric == "accuracy" else "")
    return Column(
        name,
        ["–" if value is None else mean_and_deviation(value, metric) for value in values],
        Kind.NUMBER,
        heading=f"{name} ▲" if ranks else name,
        legend=f"{_mean_legend(rows, has_deviation=has_deviation)}; ▲ ranks the rows" if ranks else "",
        drop_order=None if ranks else _DROP_ORDER[split, metric],
        short_cells=["–" if value is None else mean_only(value, metric) for value in values] if has_deviation else None,
        shorten_order=_DROP_ORDER[split, metric] if ranks else _SHORTEN_ORDER[split, metric],
        short_note=f"± of {name.removesuffix(' %')}",
    )


def _mean_legend(rows: Sequence[LeaderboardRow], *, has_deviation: bool) -> str:
    """Over how many seeds metrics are means, and what ± is."""
    counts = {row.seeds for row in rows}
    seeds = "seeds" if len(counts) > 1 else "one seed" if counts == {1} else f"{counts.pop()} seeds"
    return f"metrics: mean{' ± standard deviation' if has_deviation else ''} over {seeds}"


def _state_column(rows: Sequence[LeaderboardRow]) -> Column:
    """States of rows without a value; empty where every row is measured."""
    return Column("state", ["" if row.state is EvaluationState.MEASURED else str(row.state) for row in rows], Kind.CODE)


def _seeds_column(rows: Sequence[LeaderboardRow]) -> Column | None:
    """Numbers of seeds; None where they are equal and the legend names them."""
    if len({row.seeds for row in rows}) < 2:
        return None
    return Column("seeds", [str(row.seeds) for row in rows], Kind.NUMBER, drop_order=_DROP_POPULATION)


def unranked_reasons(board: Leaderboard) -> list[str]:
    """One line for each reason why rows have no rank, with the configurations it applies to."""
    rows_by_reason: dict[str, list[LeaderboardRow]] = {}
    for row in board.rows:
        reason = row_reason(row)
        if row.rank is None and reason:
            rows_by_reason.setdefault(f"{row.state}: {reason}", []).append(row)
    return [f"no rank for {_configuration_list(rows)}: {reason}" for reason, rows in rows_by_reason.items()]


def _configuration_list(rows: list[LeaderboardRow]) -> str:
    return ", ".join(dict.fromkeys(str(row.configuration) for row in rows))
