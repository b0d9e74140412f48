"""A table that fits the width of a terminal: numbers are never cut, and columns that do not fit are named below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from bln_search.reports.tables.column_fitting import compute_folded_column_widths, fit_columns, min_table_width
from bln_search.reports.tables.columns import EMPTY_CELLS, Cell, CellKind, Column, join_column_legends
from bln_search.reports.tables.line_wrapping import wrap_line


@dataclass(frozen=True)
class FittedTable:
    """A table that drops empty columns and, where it is too wide, the least important ones.

    Where not even the other columns fit, they are printed in several tables, each with the columns that identify a row;
    where these leave no room, every row is printed as a list of its values.

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
        return [column for column in self.columns if not column.has_only_empty_cells]

    @property
    def rows(self) -> list[list[Cell]]:
        """Cells by row."""
        return [list(cells) for cells in zip(*(column.cells for column in self.columns), strict=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield title, tables, notes and legend for the width of the console."""
        width = options.max_width
        if self.title:
            yield Text(self.title, style="bold", overflow="fold")
        present = self.columns_with_values
        fitting = fit_columns(present, width)
        yield from self._tables_that_fit(fitting.columns, width)
        if self.all_columns and fitting.omitted:
            keys = [column for column in present if column.is_key]
            yield ""
            yield from self._tables_that_fit([*keys, *fitting.omitted], width)
        elif fitting.omissions:
            yield Text(wrap_line(self._omission_note(fitting.omissions, width), width), style="dim")
        for note in self.notes:
            yield Text(wrap_line(note, width))
        legend = join_column_legends(present if self.all_columns else fitting.columns)
        if legend:
            yield Text(wrap_line(legend, width), style="dim")

    def _tables_that_fit(self, columns: Sequence[Column], width: int) -> Iterator[RenderableType]:
        """One table, several that repeat the columns that identify a row, or lines of names and values."""
        if min_table_width(columns) <= width:
            yield self._build_rich_table(columns, compute_folded_column_widths(columns, width))
            return
        keys = [column for column in columns if column.is_key]
        waiting = [column for column in columns if not column.is_key]
        if not keys:
            keys, waiting = list(columns[:1]), list(columns[1:])
        if any(min_table_width([*keys, column]) > width for column in waiting):
            yield from _rows_as_name_value_lines(columns)
            return
        while waiting:
            count = len(waiting)
            while min_table_width([*keys, *waiting[:count]]) > width:
                count -= 1
            yield from self._tables_that_fit([*keys, *waiting[:count]], width)
            waiting = waiting[count:]
            if waiting:
                yield ""

    def _build_rich_table(self, columns: Sequence[Column], widths: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for column, width in zip(columns, widths, strict=True):
            table.add_column(
                Text("\n".join(column.heading_lines)),
                justify="right" if column.kind is CellKind.NUMBER else "left",
                width=width,
                no_wrap=column.kind is not CellKind.TEXT,
                overflow="fold",
            )
        for index, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
            style = None if self.row_styles is None else self.row_styles[index]
            table.add_row(*map(_to_rich_text, cells), style=style)
        return table

    def _omission_note(self, omissions: Sequence[str], width: int) -> str:
        more = "--details or a wider terminal shows them" if self.has_details else "a wider terminal shows them"
        return f"Not shown at {width} columns: {', '.join(omissions)}; {more}."


def _rows_as_name_value_lines(columns: Sequence[Column]) -> Iterator[Text]:
    """Every row as lines of names and values, rows separated by an empty line."""
    for index, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if index:
            yield Text("")
        for column, cell in zip(columns, map(_to_rich_text, cells), strict=True):
            if cell.plain not in EMPTY_CELLS:
                yield Text.assemble((f"{column.name}: ", "bold"), cell, overflow="fold")


def _to_rich_text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
