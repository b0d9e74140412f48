"""Tables of results with sentences below, as text and as HTML for notebooks."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from html import escape

from rich.console import Console

from bln_search.core.enums import Split
from bln_search.core.records import RowKey
from bln_search.ranking.looks import StagedReading
from bln_search.reports.terminal.columns import CellKind, join_column_legends
from bln_search.reports.terminal.fitted_table import FittedTable

ALL_SIZES = "all"
"""Mini-batch size of a row that is the same at every size."""

_WIDTH = 160
"""Columns of a printed table where there is no terminal, as in a notebook or a file."""


def render_table_text(table: FittedTable, sentences: Sequence[str]) -> str:
    """The table and the sentences as text."""
    out = io.StringIO()
    Console(file=out, width=_print_width()).print(table, *sentences, sep="\n", markup=False)
    return out.getvalue()


def _print_width() -> int:
    """Columns of the terminal that prints, or of `COLUMNS`."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return shutil.get_terminal_size((_WIDTH, 0)).columns
    return _WIDTH


def render_table_html(table: FittedTable, sentences: Sequence[str]) -> str:
    """The table as an HTML table, the sentences as paragraphs."""
    columns = table.columns_with_values
    styles = [f' style="text-align: {"right" if column.kind is CellKind.NUMBER else "left"}"' for column in columns]
    body = zip(*(map(str, column.cells) for column in columns), strict=True)
    header = [column.full_heading for column in columns]
    lines = [
        _render_html_row("th", header, styles),
        "</thead><tbody>",
        *(_render_html_row("td", row, styles) for row in body),
    ]
    notes = filter(None, (*table.notes, join_column_legends(columns)))
    paragraphs = [f"<p>{escape(sentence)}</p>" for sentence in (*notes, *sentences)]
    return "\n".join(["<table><thead>", *lines, "</tbody></table>", *paragraphs])


def left_out_lines(left_out_by_split: Mapping[Split, int], condition: str = "") -> list[str]:
    """One line for each split with examples that are left out. condition: its name; empty for a single condition."""
    place = f" of the condition {condition}" if condition else ""
    return [
        f"{number:,} {split} example{'s' if number > 1 else ''}{place} without a counted target "
        f"{'are' if number > 1 else 'is'} left out."
        for split, number in left_out_by_split.items()
        if number
    ]


def staged_reading_lines(reading: StagedReading | None, split: Split) -> list[str]:
    """One line that says how much of the split was read; none for an evaluation that did not stop by itself."""
    if reading is None:
        return []
    if reading.examples < reading.of:
        return [
            f"Decided after {reading.examples:,} of {reading.of:,} {split} examples: figures are means over these "
            "examples."
        ]
    outcome = "Decided" if reading.is_decided else "Not decided"
    return [f"{outcome} after all {reading.of:,} {split} examples, which were read in stages."]


def format_chart_row_label(key: RowKey, batch_sizes: Sequence[int], all_sizes: Collection[int]) -> str:
    """Configuration, population and mini-batch size of a row, for charts: `FT-- source, m = 4`.

    Args:
        key: Identity of the row.
        batch_sizes: Sizes of the row.
        all_sizes: All sizes that were evaluated; a single one is not named.
    """
    name = " ".join(part for part in (str(key.configuration), key.estimate) if part)
    if len(all_sizes) < 2:
        return name
    return f"{name}, m = {ALL_SIZES if set(batch_sizes) == set(all_sizes) else batch_sizes[0]}"


def mark_rows_of_all_sizes(
    table: FittedTable, batch_sizes: Sequence[Sequence[int]], all_sizes: Collection[int]
) -> FittedTable:
    """The table with `all` in the column of mini-batch sizes for rows that are the same at all of several sizes.

    Args:
        table: The table.
        batch_sizes: Sizes of each row.
        all_sizes: All sizes that were evaluated.
    """
    if len(all_sizes) < 2:
        return table
    cells = [ALL_SIZES if set(sizes) == set(all_sizes) else str(sizes[0]) for sizes in batch_sizes]
    legend = f"batch {ALL_SIZES}: the same at every mini-batch size" if ALL_SIZES in cells else ""
    columns = [
        replace(column, cells=cells, legend=legend) if column.name == "batch" else column for column in table.columns
    ]
    return replace(table, columns=columns)


def _render_html_row(tag: str, cells: Sequence[str], styles: Sequence[str]) -> str:
    """One row of a table."""
    written = (
        f"<{tag}{style}>{escape(cell).replace(chr(10), '<br>')}</{tag}>"
        for cell, style in zip(cells, styles, strict=True)
    )
    return f"<tr>{''.join(written)}</tr>"
