"""What a section of the page is made of. Nothing here is HTML: the template escapes every text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from bln_search.core.configuration import InferenceConfiguration, Source, Statistic
from bln_search.reports.charts import Chart

MOST_ROWS = 1_000
"""Of a table on the page: a study of ten thousand trials is still a page that opens."""


class Kind(StrEnum):
    """How a column of a table looks."""

    TEXT = "text"
    NUMBER = "number"
    SWITCH = "switch"
    WORD = "word"


@dataclass(frozen=True)
class Column:
    """The heading of a column, and how what is under it looks."""

    label: str
    kind: Kind = Kind.TEXT


SWITCHES = tuple(Column(statistic.value, Kind.SWITCH) for statistic in Statistic)
"""A column for each of the four statistics."""

SOURCES = {Source.POPULATION: "population", Source.MINI_BATCH: "mini-batch", Source.MEMORY: "memory", Source.ABSENT: ""}


def switch_cells(configuration: InferenceConfiguration) -> list[str]:
    """The letters under SWITCHES."""
    return [source.value for source in configuration.sources.values()]


@dataclass(frozen=True)
class Row:
    """A cell for every column. style: `first` where it shares the first place, `unranked` where it has no rank."""

    cells: Sequence[str]
    style: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A few sentences. warning: what a reader must not miss."""

    template: ClassVar[str] = "paragraph"
    text: str
    warning: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and what they are, side by side."""

    template: ClassVar[str] = "facts"
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first cell of a row is its heading. Only the first MOST_ROWS rows are shown.

    caption: what it shows. more: where the other rows are. folded: shown when somebody opens it.
    """

    template: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    more: str = ""
    folded: bool = False

    @property
    def shown(self) -> Sequence[Row]:
        """As many rows as the page takes."""
        return self.rows[:MOST_ROWS]

    @property
    def left_out(self) -> str:
        """A sentence about the rows that are not shown, empty where all are."""
        if len(self.rows) <= MOST_ROWS:
            return ""
        return f"The first {MOST_ROWS:,} of {len(self.rows):,} rows are shown. {self.more}".strip()


@dataclass(frozen=True)
class Code:
    """Text as it is: commands, YAML, JSON. folded: under this title, shown when somebody opens it."""

    template: ClassVar[str] = "code"
    text: str
    folded: str = ""


@dataclass(frozen=True)
class Picture:
    """A chart, drawn by the script, with its data as a table. about: what sets it apart from others of its title."""

    template: ClassVar[str] = "picture"
    chart: Chart
    about: str = ""

    @property
    def title(self) -> str:
        """What it shows."""
        return f"{self.chart.title}: {self.about}" if self.about else self.chart.title

    @property
    def data(self) -> Table:
        """What is drawn."""
        names = list(dict.fromkeys(name for row in self.chart.rows for name in row))
        columns = [Column(name, _kind(self.chart.rows, name)) for name in names]
        rows = [Row([_written(row.get(name)) for name in names]) for row in self.chart.rows]
        return Table(f"Data of: {self.title}", columns, rows, folded=True)


Block = Paragraph | Facts | Table | Code | Picture


@dataclass(frozen=True)
class Section:
    """A part of the page: name is its address (`#name`), heading what people read, blocks what stands in it."""

    name: str
    heading: str
    blocks: Sequence[Block]


def _kind(rows: Sequence[Mapping[str, Any]], name: str) -> Kind:
    values = [row[name] for row in rows if row.get(name) is not None]
    number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    return Kind.NUMBER if values and number else Kind.TEXT


def _written(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
