"""Columns of a table in the terminal: cells, heading, legend, widths, and what may be shortened or dropped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rich.cells import cell_len
from rich.text import Text

EMPTY_CELLS = ("", "–")
_NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
"""A space of a heading at which it is not wrapped."""

_MAX_HEADING_WIDTH = 24
"""Longest line of a heading above shorter cells; a longer word is broken."""

Cell = str | Text


class CellKind(Enum):
    """How the cells of a column are set.

    Members:
        NUMBER: Right-aligned; never wrapped.
        CODE: Left-aligned; never wrapped.
        TEXT: Left-aligned; folded where the table is too wide.
        SWITCH: The letter of a source, coloured in HTML; never wrapped.
    """

    NUMBER = "number"
    CODE = "code"
    TEXT = "text"
    SWITCH = "switch"


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
    def has_only_empty_cells(self) -> bool:
        """Whether it has rows, and no row has a value."""
        return bool(self.cells) and all(_plain_text(cell) in EMPTY_CELLS for cell in self.cells)

    @property
    def shared_value(self) -> str | None:
        """The value of all rows, in a column of codes of all rows that have one; None for a single row or no value."""
        cells = {_plain_text(cell) for cell in self.cells}
        if self.kind is CellKind.CODE:
            cells.difference_update(EMPTY_CELLS)
        return cells.pop() if len(self.cells) > 1 and len(cells) == 1 and not self.has_only_empty_cells else None

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
        lines = [part for line in lines for part in textwrap.wrap(line, max(_MAX_HEADING_WIDTH, self._cell_width))]
        return [line.replace(_NO_BREAK_SPACE, " ") for line in lines]

    @property
    def unfolded_width(self) -> int:
        """Width of the column without folding."""
        return max([self._cell_width, *map(cell_len, self.heading_lines), 1])

    def min_folded_width(self, fold_width: int) -> int:
        """Smallest width of the column, where text is folded down to `fold_width`."""
        if self.kind is not CellKind.TEXT:
            return self.unfolded_width
        return min(self.unfolded_width, max([fold_width, *map(cell_len, self.heading_lines)]))

    @property
    def _cell_width(self) -> int:
        return max((cell_len(line) for cell in self.cells for line in _plain_text(cell).split("\n")), default=0)


def join_column_legends(columns: Sequence[Column]) -> str:
    """Meaning of columns and marks, in one line; empty where no column needs it."""
    legends = dict.fromkeys(column.legend for column in columns if column.legend)
    return f"{'; '.join(legends)}." if legends else ""


def _plain_text(cell: Cell) -> str:
    return cell.plain if isinstance(cell, Text) else cell
