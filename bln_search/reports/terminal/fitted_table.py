"""A table that fits the width of a terminal: numbers are never cut, and columns that do not fit are named below it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

_GAP = 2
"""Spaces between two columns."""

_FOLD_WIDTHS = (24, 12)
"""Widths down to which a column of text is folded: before columns are dropped, and where even that does not suffice."""

_EMPTY_CELLS = ("", "–")
_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
"""A space of a heading at which it is not wrapped."""

Cell = str | Text
_Reduction = tuple[int, bool]
"""Index of a column, and whether the column is dropped; otherwise its cells are shortened."""


class CellKind(Enum):
    """How the cells of a column are set.

    Members:
        NUMBER: Right-aligned; never wrapped.
        CODE: Left-aligned; never wrapped.
        TEXT: Left-aligned; folded where the table is too wide.
    """

    NUMBER = "number"
    CODE = "code"
    TEXT = "text"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Name, which is also the heading where `heading` is None.
        cells: One cell for each row.
        kind: How the cells are set.
        heading: Heading, if it is not the name.
        legend: Meaning of the column for the line below the table; empty where the name suffices.
        is_key: The column identifies its row, so that further tables repeat it.
        drop_order: Columns that do not fit are dropped in this order, after those whose rows have the same value; None
            for a column that is always shown.
        short_cells: Shorter cells, for a narrow terminal.
        shorten_order: Position of the shorter cells in the same order.
        short_note: What the shorter cells lack.
    """

    name: str
    cells: Sequence[Cell]
    kind: CellKind = CellKind.TEXT
    heading: str | None = None
    legend: str = ""
    is_key: bool = False
    drop_order: int | None = None
    short_cells: Sequence[Cell] | None = None
    shorten_order: int = 0
    short_note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether it has rows, and no row has a value."""
        return bool(self.cells) and all(_plain_text(cell) in _EMPTY_CELLS for cell in self.cells)

    @property
    def constant(self) -> str | None:
        """The value of all rows, in a column of codes of all rows that have one; None for a single row or no value."""
        cells = {_plain_text(cell) for cell in self.cells}
        if self.kind is CellKind.CODE:
            cells.difference_update(_EMPTY_CELLS)
        return cells.pop() if len(self.cells) > 1 and len(cells) == 1 and not self.is_empty else None

    @property
    def full_heading(self) -> str:
        """The heading in one line."""
        return self.name if self.heading is None else self.heading

    @property
    def heading_lines(self) -> list[str]:
        """The heading in lines that are, where words permit, no wider than the cells."""
        heading = self.full_heading
        for sign in ("%", "▲"):
            heading = heading.replace(f" {sign}", f"{_NO_BREAK_SPACE}{sign}")
        if not self.cells:
            return [heading.replace(_NO_BREAK_SPACE, " ")]
        lines = textwrap.wrap(heading, max(1, self._cell_width), break_long_words=False, break_on_hyphens=False)
        return [line.replace(_NO_BREAK_SPACE, " ") for line in lines]

    @property
    def width(self) -> int:
        """Width of the column without folding."""
        return max([self._cell_width, *map(cell_len, self.heading_lines), 1])

    def min_width(self, fold_width: int) -> int:
        """Smallest width of the column, where text is folded down to `fold_width`."""
        if self.kind is not CellKind.TEXT:
            return self.width
        return min(self.width, max([fold_width, *map(cell_len, self.heading_lines)]))

    @property
    def _cell_width(self) -> int:
        return max((cell_len(line) for cell in self.cells for line in _plain_text(cell).split("\n")), default=0)


@dataclass(frozen=True)
class FittedTable:
    """A table that drops empty columns and, where it is too wide, the least important ones.

    Where not even the other columns fit, every row is printed as a list of its values.

    Attributes:
        columns: Columns from left to right.
        title: Line above the table.
        notes: Lines below the table.
        row_styles: Rich style of each row; None for no styles.
        all_columns: Print dropped columns in further tables instead of naming them.
        has_details: The note on dropped columns mentions the option --details.
    """

    columns: Sequence[Column]
    title: str = ""
    notes: Sequence[str] = ()
    row_styles: Sequence[str | None] | None = None
    all_columns: bool = False
    has_details: bool = False

    @property
    def columns_with_values(self) -> list[Column]:
        """Columns of which a row has a value."""
        return [column for column in self.columns if not column.is_empty]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield title, tables, notes and legend for the width of the console."""
        width = options.max_width
        if self.title:
            yield Text(self.title, style="bold", overflow="fold")
        present = self.columns_with_values
        fitting = fit_columns(present, width)
        yield from self._fit_tables(fitting.columns, width)
        if self.all_columns:
            yield from self._further_tables(fitting.omitted, width)
        elif fitting.omissions:
            yield Text(self._omission_note(fitting.omissions, width), style="dim")
        for note in self.notes:
            yield Text(note)
        legend = legend_text(present if self.all_columns else fitting.columns)
        if legend:
            yield Text(legend, style="dim")

    def _fit_tables(self, columns: Sequence[Column], width: int) -> Iterator[RenderableType]:
        if _table_width(columns) <= width:
            yield self._build_table(columns, _column_widths(columns, width))
        else:
            yield from _rows_as_records(columns)

    def _further_tables(self, omitted: Sequence[Column], width: int) -> Iterator[RenderableType]:
        """Tables of the omitted columns, each beside the columns that identify a row."""
        keys = [column for column in self.columns_with_values if column.is_key]
        waiting = list(omitted)
        while waiting:
            count = len(waiting)
            while count > 1 and _table_width([*keys, *waiting[:count]]) > width:
                count -= 1
            yield ""
            yield from self._fit_tables([*keys, *waiting[:count]], width)
            waiting = waiting[count:]

    def _build_table(self, columns: Sequence[Column], widths: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for column, width in zip(columns, widths, strict=True):
            table.add_column(
                Text("\n".join(column.heading_lines)),
                justify="right" if column.kind is CellKind.NUMBER else "left",
                width=width,
                no_wrap=column.kind is not CellKind.TEXT,
                overflow="fold",
            )
        for index in range(max((len(column.cells) for column in columns), default=0)):
            cells = [_as_text(column.cells[index]) for column in columns]
            table.add_row(*cells, style=None if self.row_styles is None else self.row_styles[index])
        return table

    def _omission_note(self, omissions: Sequence[str], width: int) -> str:
        more = "--details or a wider terminal shows them" if self.has_details else "a wider terminal shows them"
        return f"Not shown at {width} columns: {', '.join(omissions)}; {more}."


def legend_text(columns: Sequence[Column]) -> str:
    """Meaning of columns and marks, in one line; empty where no column needs it."""
    legends = dict.fromkeys(column.legend for column in columns if column.legend)
    return f"{'; '.join(legends)}." if legends else ""


@dataclass(frozen=True)
class FittedColumns:
    """Columns that fit a width.

    Attributes:
        columns: Columns to show, possibly with shorter cells.
        omitted: Columns that are not shown, or only with shorter cells, as they were.
        omissions: What is not shown, in words.
    """

    columns: Sequence[Column]
    omitted: Sequence[Column]
    omissions: Sequence[str]


def fit_columns(columns: Sequence[Column], width: int) -> FittedColumns:
    """Shorten and drop columns in their order until the rest fits, or nothing more can be dropped."""
    for fold_width in _FOLD_WIDTHS:
        fitting = _reduce_columns(columns, width, fold_width)
        if _table_width(fitting.columns, fold_width) <= width:
            break
    return fitting


def _reduce_columns(columns: Sequence[Column], width: int, fold_width: int) -> FittedColumns:
    """Apply reductions in their order until the columns fit, then undo those that were not necessary."""

    def fits(reductions: Sequence[_Reduction]) -> bool:
        shown = [column for column in _apply(columns, reductions) if column is not None]
        return _table_width(shown, fold_width) <= width

    applied: list[_Reduction] = []
    for reduction in _ordered_reductions(columns):
        if fits(applied):
            break
        applied.append(reduction)
    for reduction in reversed(applied):
        fewer = [other for other in applied if other != reduction]
        if fits(fewer):
            applied = fewer
    shown = _apply(columns, applied)
    changed = [(before, after) for before, after in zip(columns, shown, strict=True) if after is not before]
    return FittedColumns(
        columns=[column for column in shown if column is not None],
        omitted=[before for before, _ in changed],
        omissions=[_omission(before) if after is None else before.short_note for before, after in changed],
    )


def _omission(column: Column) -> str:
    """Name of a dropped column, with the value that all rows share."""
    return column.name if column.constant is None else f"{column.name} ({column.constant})"


def _apply(columns: Sequence[Column], reductions: Sequence[_Reduction]) -> list[Column | None]:
    """Columns after reductions; None for a dropped one."""
    shown: list[Column | None] = list(columns)
    for index, is_drop in reductions:
        column = columns[index]
        if is_drop:
            shown[index] = None
        elif column.short_cells is not None:
            shown[index] = replace(column, cells=column.short_cells)
    return shown


def _ordered_reductions(columns: Sequence[Column]) -> list[_Reduction]:
    """All reductions in their order: first columns whose rows have the same value are dropped."""
    steps = [(True, column.shorten_order, index, False) for index, column in enumerate(columns) if column.short_cells]
    steps += [
        (column.constant is None, column.drop_order, index, True)
        for index, column in enumerate(columns)
        if column.drop_order is not None
    ]
    return [(index, is_drop) for *_, index, is_drop in sorted(steps)]


def _table_width(columns: Sequence[Column], fold_width: int = _FOLD_WIDTHS[-1]) -> int:
    """Smallest width of a table."""
    return sum(column.min_width(fold_width) for column in columns) + _GAP * (len(columns) - 1)


def _column_widths(columns: Sequence[Column], width: int) -> list[int]:
    """Widths of columns that fit: the widest columns of text are folded first."""
    widths = [column.width for column in columns]
    excess = sum(widths) + _GAP * (len(columns) - 1) - width
    while excess > 0:
        foldable = [index for index, column in enumerate(columns) if widths[index] > column.min_width(_FOLD_WIDTHS[-1])]
        widths[max(foldable, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def _rows_as_records(columns: Sequence[Column]) -> Iterator[Text]:
    """Every row as lines of names and values, rows separated by an empty line."""
    for index in range(max((len(column.cells) for column in columns), default=0)):
        if index:
            yield Text("")
        for column in columns:
            cell = _as_text(column.cells[index])
            if cell.plain not in _EMPTY_CELLS:
                yield Text.assemble((f"{column.name}: ", "bold"), cell, overflow="fold")


def _plain_text(cell: Cell) -> str:
    return cell.plain if isinstance(cell, Text) else cell


def _as_text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
