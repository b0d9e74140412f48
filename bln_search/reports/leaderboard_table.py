"""The leaderboard as columns of cells, for terminal, publications and report; other tables of rows share some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.method import StatisticSource
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.metrics import MeanStd
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.reports.formatting import (
    common_decimals,
    confidence_interval_over_seeds,
    format_mean,
    format_mean_and_deviation,
    format_metric_interval,
    verdict_confidence_text,
)
from bln_search.reports.leaderboard_columns import ROW_COLUMNS, Form, RowColumn, ViewedRow
from bln_search.reports.metric_columns import LOSS, MetricColumn, capitalize
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.specs.sections.point_labels import find_distinct_point_digits


def build_table_columns(
    rows: Sequence[ViewedRow],
    form: Form,
    metrics: Sequence[Column] = (),
    *,
    capitalized: bool = False,
    level: float = ALPHA,
) -> list[Column]:
    """The columns of a table.

    Args:
        rows: The rows.
        form: TERMINAL, PUBLICATION or REPORT.
        metrics: Columns of metrics, at their place among the others.
        capitalized: Whether headings begin with a capital.
        level: Significance level of the verdicts.
    """
    columns: list[Column] = []
    for column in ROW_COLUMNS:
        if isinstance(column, str):
            columns += metrics
        elif column.is_shown(form, rows):
            columns.append(_build_column(column, form, rows, level, capitalized=capitalized))
    return columns


def _build_column(
    column: RowColumn, form: Form, rows: Sequence[ViewedRow], level: float, *, capitalized: bool
) -> Column:
    cells = list(map(column.text_of_row, rows))
    is_key = column.identifies
    if column.identifies and column.drop_order is not None:
        is_key = len(set(cells) - {"–"}) > 1
    built = Column(
        capitalize(column.heading) if capitalized else column.heading,
        cells,
        column.kind,
        is_key=is_key,
        drop_order=None if is_key else column.drop_order,
    )
    if form is not Form.TERMINAL:
        return built
    if column.name == "configuration":
        return _colour_configurations(built, [viewed.row.configuration for viewed in rows])
    if column.name == "recommended":
        return replace(built, heading="", legend=column.explanation)
    return replace(built, legend=verdict_legend("the best row", level)) if column.name == "verdict" else built


def verdict_legend(of: str, level: float) -> str:
    """What a verdict is. of: what rows are compared with, at this significance level."""
    return f"verdict: each row beside {of} ({verdict_confidence_text(level)})"


def _colour_configurations(column: Column, configurations: Sequence[InferenceConfiguration]) -> Column:
    """The four letters of each row in colours; the legend explains those that occur."""
    sources = {source for configuration in configurations for source in configuration.source_by_statistic.values()}
    meanings = ", ".join(f"{source} {source.label}" for source in StatisticSource if source in sources)
    cells = [
        Text.assemble(
            *((source.value, source.description.colour) for source in configuration.source_by_statistic.values())
        )
        for configuration in configurations
    ]
    return replace(column, cells=cells, legend=f"configuration: sources of E_B, Std_B, E_F, Std_F ({meanings})")


def row_identity_columns(keys: Sequence[RowKey], drop_population: int) -> list[Column]:
    """Columns that tell rows apart: arm, parameters and batch size where they differ, configuration, population.

    Args:
        keys: Identity of each row.
        drop_population: Order in which the population is dropped; it is kept where rows have several estimates.
    """
    digits = find_distinct_point_digits(key.point for key in keys)
    rows = [ViewedRow(_row_of_key(key, digits), (key.batch_size,)) for key in keys]
    names = ("arm", "parameters", "configuration", "population", "batch")
    columns = [column for column in build_table_columns(rows, Form.TERMINAL) if column.name in names]
    return [column if column.drop_order is None else replace(column, drop_order=drop_population) for column in columns]


def _row_of_key(key: RowKey, point_digits: int) -> LeaderboardRow:
    """A row of which only the identity is known."""
    return LeaderboardRow(
        rank=None,
        arm=key.arm,
        configuration=key.configuration,
        estimate=key.estimate,
        batch_size=key.batch_size,
        state=EvaluationState.MEASURED,
        seeds=0,
        metrics={},
        reason=None,
        point=key.point,
        point_digits=point_digits,
    )


def recommended_mark_column(is_recommended: Sequence[bool]) -> Column:
    """A mark at the recommended row."""
    cells = ["*" if recommended else "" for recommended in is_recommended]
    return Column("recommended", cells, CellKind.CODE, heading="", legend="* recommended")


def verdict_column(
    verdicts: Sequence[RowVerdict | None], drop_order: int, of: str = "the best row", level: float = ALPHA
) -> Column | None:
    """What is known about each row beside the best one; None where no row was compared.

    Args:
        verdicts: Verdict of each row; None for a row that was not compared.
        drop_order: Order in which the column is dropped.
        of: What the rows are compared with.
        level: Significance level of the verdicts.
    """
    if not any(verdicts):
        return None
    cells = [verdict or "" for verdict in verdicts]
    return Column("verdict", cells, CellKind.CODE, legend=verdict_legend(of, level), drop_order=drop_order)


def metric_columns_with_deviations(
    rows: Sequence[LeaderboardRow], columns: Sequence[MetricColumn], *, capitalized: bool = False
) -> list[Column]:
    """Means with standard deviations over seeds."""
    return [
        Column(_metric_heading(column, capitalized=capitalized), _deviation_cells(rows, column), CellKind.NUMBER)
        for column in columns
    ]


def metric_columns_with_intervals(rows: Sequence[LeaderboardRow], columns: Sequence[MetricColumn]) -> list[Column]:
    """Means with half the 95 % confidence interval over seeds; the values of a column have the same decimals."""
    built = []
    for column in columns:
        name = column.measure.name
        intervals = [confidence_interval_over_seeds(column.value_of_row(row), row.seeds) for row in rows]
        decimals = common_decimals(intervals, name)
        cells = [format_metric_interval(interval, name, decimals) for interval in intervals]
        built.append(Column(_metric_heading(column, capitalized=True), cells, CellKind.NUMBER))
    return built


def metric_columns_of_terminal(
    rows: Sequence[LeaderboardRow], columns: Sequence[MetricColumn], ranked_on: Split, score: str
) -> list[Column]:
    """Means with standard deviations, which a narrow terminal drops; the loss that ranks the rows is never dropped.

    Args:
        rows: The rows.
        columns: The metrics.
        ranked_on: Split that ranks the rows.
        score: What the loss is, with its unit; empty if it is not known.
    """
    built = []
    for column in columns:
        values = [column.value_of_row(row) for row in rows]
        has_deviation = any(value is not None and value.deviation is not None for value in values)
        shorten_order, drop_order = column.terminal_orders(ranked_on)
        ranks = column == MetricColumn(ranked_on, LOSS)
        short = ["–" if value is None else format_mean(value, column.measure.name) for value in values]
        built.append(
            Column(
                column.heading,
                _deviation_cells(rows, column),
                CellKind.NUMBER,
                heading=f"{column.heading} ▲" if ranks else column.heading,
                legend=_ranking_legend(rows, score, has_deviation=has_deviation) if ranks else column.measure.legend,
                drop_order=None if ranks else drop_order,
                short_cells=short if has_deviation else None,
                shorten_order=shorten_order,
                short_note=f"± of {column.name}",
            )
        )
    return built


def _metric_heading(column: MetricColumn, *, capitalized: bool) -> str:
    return (column.capitalized_name if capitalized else column.name) + column.unit_suffix


def _deviation_cells(rows: Sequence[LeaderboardRow], column: MetricColumn) -> list[str]:
    def cell(value: MeanStd | None) -> str:
        return "–" if value is None else format_mean_and_deviation(value, column.measure.name)

    return [cell(column.value_of_row(row)) for row in rows]


def _ranking_legend(rows: Sequence[LeaderboardRow], score: str, *, has_deviation: bool) -> str:
    """What the loss is, over how many seeds metrics are means, what ± is, and which column ranks."""
    counts = {row.seeds for row in rows}
    seeds = "one seed" if counts == {1} else f"{counts.pop()} seeds" if len(counts) == 1 else "seeds"
    metrics = f"metrics: mean{' ± standard deviation' if has_deviation else ''} over {seeds}; ▲ ranks the rows"
    return f"loss: {score}; {metrics}" if score else metrics
