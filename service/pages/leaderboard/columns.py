"""Columns of the leaderboard page, and the choice of them that its link keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from bln_search.ranking.condition_metrics import SUMMARIES
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.formatting import format_metric_interval
from bln_search.reports.leaderboard_columns import ROW_COLUMNS, Form, RowColumn
from bln_search.reports.metric_columns import ACCURACY, LOSS, MetricColumn, capitalize
from bln_search.reports.sentences.leaderboard import find_unranked_reason
from bln_search.reports.tables.columns import CellKind
from service.pages.leaderboard.rows import LeaderboardTableRow, list_shown_metrics

_PARAMETER = "parameter:"
"""Prefix of the key of a column with a parameter of the search space."""

_PER_CENT = "\N{NO-BREAK SPACE}%"
_MAX_CONDITIONS_AT_FIRST = 3
"""With more conditions, only their mean and worst value are shown at first."""

Decimals = Mapping[str, int]


@dataclass(frozen=True)
class LeaderboardColumn:
    """A column beside rank and configuration.

    Attributes:
        key: Its name in the link.
        heading: Its heading.
        cell: Cell of a row, with the decimals of the metrics.
        explanation: What it contains, where the heading does not say it.
        is_number: Whether its values are numbers.
        sort: Value of `sort` that orders by it; None where no order is offered.
        at_first: Whether it is shown where the link names no columns.
        term: Anchor of its term in the glossary; empty without one.
        condition: Heading of the condition, under which the head of the table joins its columns; empty without one.
        is_metric: Whether it contains a metric, which rows without a value lack.
    """

    key: str
    heading: str
    cell: Callable[[LeaderboardTableRow, Decimals], str]
    explanation: str = ""
    is_number: bool = False
    sort: str | None = None
    at_first: bool = True
    term: str = ""
    condition: str = ""
    is_metric: bool = False

    @property
    def heading_below_condition(self) -> str:
        """The heading without the condition."""
        return self.heading.removeprefix(self.condition).lstrip()


def list_available_columns(
    board: Leaderboard, parameters: Sequence[str], *, has_comparison: bool, loss: str
) -> list[LeaderboardColumn]:
    """Return the columns that have values.

    Args:
        board: The leaderboard.
        parameters: Names of the parameters of the study's points.
        has_comparison: Whether the rows are compared.
        loss: What the losses are, with their unit.
    """
    columns: list[LeaderboardColumn] = []
    for column in ROW_COLUMNS:
        if isinstance(column, str):
            columns += _interval_and_metric_columns(board, loss)
        elif Form.PAGE in column.forms and column.name != "rank" and (has_comparison or not column.of_analysis):
            columns.append(_page_column(column, board))
        if not isinstance(column, str) and column.name == "arm":
            columns += map(_parameter_column, parameters)
    return columns


def _page_column(column: RowColumn, board: Leaderboard) -> LeaderboardColumn:
    def cell(line: LeaderboardTableRow, _: Decimals) -> str:
        text = column.text_of_row(line.viewed)
        reason = find_unranked_reason(line.viewed.row)
        if column.name == "seeds" and line.viewed.row.metrics and reason:
            return text + Markup('<abbr title="{}">*</abbr>').format(reason)
        return text

    return LeaderboardColumn(
        column.name,
        capitalize(column.heading),
        cell,
        column.explanation,
        is_number=column.kind is CellKind.NUMBER,
        at_first=Form.PAGE not in column.where_rows_differ or column.do_rows_differ(board.rows),
        term=column.term,
    )


def _parameter_column(name: str) -> LeaderboardColumn:
    def cell(line: LeaderboardTableRow, _: Decimals) -> str:
        return line.parameters.get(name, "–")

    return LeaderboardColumn(f"{_PARAMETER}{name}", name, cell, f"parameter {name} of the search space", term="point")


def _interval_and_metric_columns(board: Leaderboard, loss: str) -> list[LeaderboardColumn]:
    """The metrics, those on clean images before those under conditions; the interval as a picture beside its loss."""
    few = len(board.condition_names) <= _MAX_CONDITIONS_AT_FIRST
    columns = []
    for metric in list_shown_metrics(board):
        columns.append(_metric_column(metric, loss, few_conditions=few))
        if metric == MetricColumn(board.ranked_on, LOSS):
            columns.append(
                LeaderboardColumn(
                    "interval",
                    f"{metric.capitalized_name}, 95{_PER_CENT}",
                    lambda line, _: line.picture,
                    "confidence interval as a line",
                    term="confidence-interval",
                    is_metric=True,
                )
            )
    return columns


def _metric_column(metric: MetricColumn, loss: str, *, few_conditions: bool) -> LeaderboardColumn:
    key, measure = metric.sort_key, metric.measure

    def cell(line: LeaderboardTableRow, decimals: Decimals) -> str:
        return format_metric_interval(line.figures[key], measure.name, decimals[key])

    return LeaderboardColumn(
        key,
        metric.capitalized_name + (_PER_CENT if measure is ACCURACY else ""),
        cell,
        loss if measure is LOSS else measure.legend,
        is_number=True,
        sort=key,
        at_first=not metric.condition or few_conditions or metric.condition in SUMMARIES,
        term="" if metric.condition and measure is LOSS else measure.term,
        condition=metric.condition_label,
        is_metric=True,
    )


def group_columns_by_condition(columns: Sequence[LeaderboardColumn]) -> list[tuple[str, list[LeaderboardColumn]]]:
    """Return the shown columns with the heading of their condition, adjacent columns of one condition together."""
    return [(condition, list(group)) for condition, group in groupby(columns, key=lambda column: column.condition)]


def choose_shown_columns(
    available: Sequence[LeaderboardColumn], names: Sequence[str], condition: str | None
) -> list[LeaderboardColumn]:
    """Return the columns to show, in their order.

    Args:
        available: All columns.
        names: Columns that the link names; those that the study lacks are ignored.
        condition: Condition whose rows are shown: of the columns under conditions only its own remain.
    """

    def is_of_condition(column: LeaderboardColumn) -> bool:
        return column.key.endswith(f":{condition}")

    chosen = [column for column in available if column.key in names] or [
        column for column in available if column.at_first or (condition and is_of_condition(column))
    ]
    if condition is None:
        return chosen
    return [column for column in chosen if not column.condition or is_of_condition(column)]
