"""Blocks of a section. They contain no HTML: the template escapes every text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, ClassVar

from bln_search.reports.charts import Chart
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

MAX_TABLE_ROWS = 1_000
"""Limit on the rows of a table, so that browsers can open the page of a study of ten thousand trials."""


_TITLE_LETTERS = 32
"""Letters of a line of the title of an axis."""


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
    """A table whose title is its caption; only the first MAX_TABLE_ROWS rows are shown.

    Attributes:
        content: Columns, rows and caption; a bold row is one of the top group, a dim one has no rank.
        more: Sentence on where to get the other rows.
        folded: Whether the table is shown only when a reader opens it.
    """

    template: ClassVar[str] = "table"
    content: FittedTable
    more: str = ""
    folded: bool = False

    @property
    def truncation_note(self) -> str:
        """Sentence about the rows that are not shown; empty where all are."""
        count = len(self.content.rows)
        if count <= MAX_TABLE_ROWS:
            return ""
        return f"The first {MAX_TABLE_ROWS:,} of {count:,} rows are shown. {self.more}".strip()


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
    def figure(self) -> dict[str, Any]:
        """Figure of the chart with axis titles in lines that fit a narrow page; Plotly cuts longer ones off."""
        layout = self.chart.figure["layout"]
        axes = {name: _wrap_title(layout[name]) for name in ("xaxis", "yaxis") if "title" in layout.get(name, {})}
        return {**self.chart.figure, "layout": {**layout, **axes}}

    @property
    def data_table(self) -> Table:
        """Data of the chart."""
        names = list(dict.fromkeys(name for row in self.chart.rows for name in row))
        columns = [
            Column(name, [_format_cell(row.get(name)) for row in self.chart.rows], _column_kind(self.chart.rows, name))
            for name in names
        ]
        return Table(FittedTable(columns, f"Data of: {self.title}"), folded=True)


def _wrap_title(axis: dict[str, Any]) -> dict[str, Any]:
    parts = axis["title"]["text"].split("<br>")
    text = "<br>".join("<br>".join(wrap(part, _TITLE_LETTERS)) for part in parts)
    return {**axis, "title": {**axis["title"], "text": text}}


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


def _column_kind(rows: Sequence[Mapping[str, Any]], name: str) -> CellKind:
    values = [row[name] for row in rows if row.get(name) is not None]
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return CellKind.NUMBER if values and is_number else CellKind.TEXT


def _format_cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
