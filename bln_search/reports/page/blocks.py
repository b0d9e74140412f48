"""Blocks of a section. They contain no HTML: the template escapes every text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import Statistic, StatisticSource
from bln_search.reports.charts import Chart

MAX_TABLE_ROWS = 1_000
"""Limit on the rows of a table, so that browsers can open the page of a study of ten thousand trials."""


class ColumnKind(StrEnum):
    """Kind of a column, which decides its style; the value is a class of the style sheet."""

    TEXT = "text"
    NUMBER = "number"
    SWITCH = "switch"
    CONFIGURATION = "code"


@dataclass(frozen=True)
class Column:
    """Heading and kind of a column."""

    label: str
    kind: ColumnKind = ColumnKind.TEXT


SWITCHES = tuple(Column(statistic.value, ColumnKind.SWITCH) for statistic in Statistic)
"""A column for each of the four statistics."""

SOURCE_STYLES = {
    source.value: "" if source is StatisticSource.ABSENT else source.css_name for source in StatisticSource
}
"""Class of the style sheet by letter."""


def source_letter_cells(configuration: InferenceConfiguration) -> list[str]:
    """Cells of the columns SWITCHES."""
    return [source.value for source in configuration.source_by_statistic.values()]


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        cells: One cell for every column.
        style: `first` for a row of the top group, `unranked` for a row without a rank.
    """

    cells: Sequence[str]
    style: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Text.

    Attributes:
        text: The text.
        warning: Whether it is highlighted.
    """

    template: ClassVar[str] = "paragraph"
    text: str
    warning: bool = False


@dataclass(frozen=True)
class DefinitionList:
    """Names with their values."""

    template: ClassVar[str] = "facts"
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first cell of a row is its heading. Only the first MAX_TABLE_ROWS rows are shown.

    Attributes:
        caption: Caption.
        columns: Columns.
        rows: Rows.
        more: Sentence on where to get the other rows.
        folded: Whether the table is shown only when a reader opens it.
    """

    template: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    more: str = ""
    folded: bool = False

    @property
    def shown_rows(self) -> Sequence[Row]:
        """The rows that are shown."""
        return self.rows[:MAX_TABLE_ROWS]

    @property
    def truncation_note(self) -> str:
        """Sentence about the rows that are not shown; empty where all are."""
        if len(self.rows) <= MAX_TABLE_ROWS:
            return ""
        return f"The first {MAX_TABLE_ROWS:,} of {len(self.rows):,} rows are shown. {self.more}".strip()


@dataclass(frozen=True)
class Code:
    """Preformatted text: commands, YAML, JSON.

    Attributes:
        text: The text.
        folded: Title under which it is folded; empty for unfolded text.
    """

    template: ClassVar[str] = "code"
    text: str
    folded: str = ""


@dataclass(frozen=True)
class ChartFigure:
    """A chart drawn by the script, with its data as a table.

    Attributes:
        chart: The chart.
        label: Distinguishes charts of the same title.
    """

    template: ClassVar[str] = "picture"
    chart: Chart
    label: str = ""

    @property
    def title(self) -> str:
        """Title with the label."""
        return f"{self.chart.title}: {self.label}" if self.label else self.chart.title

    @property
    def data_table(self) -> Table:
        """Data of the chart."""
        names = list(dict.fromkeys(name for row in self.chart.rows for name in row))
        columns = [Column(name, _choose_column_kind(self.chart.rows, name)) for name in names]
        rows = [Row([_format_cell(row.get(name)) for name in names]) for row in self.chart.rows]
        return Table(f"Data of: {self.title}", columns, rows, folded=True)


def figures_of_existing_charts(*charts: Chart | None, label: str = "") -> list[ChartFigure]:
    """The figures of the charts that exist."""
    return [ChartFigure(chart, label) for chart in charts if chart is not None]


Block = Paragraph | DefinitionList | Table | Code | ChartFigure


@dataclass(frozen=True)
class Section:
    """A section of the page; its address is `#name`."""

    name: str
    heading: str
    blocks: Sequence[Block]


def _choose_column_kind(rows: Sequence[Mapping[str, Any]], name: str) -> ColumnKind:
    values = [row[name] for row in rows if row.get(name) is not None]
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return ColumnKind.NUMBER if values and is_number else ColumnKind.TEXT


def _format_cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
