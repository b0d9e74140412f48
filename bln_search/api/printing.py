"""Tables of results with sentences below, as text and as HTML for notebooks."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.table import Table

_WIDTH = 160
"""Columns of a printed table."""


def table_text(table: Table, sentences: Sequence[str]) -> str:
    """The table and the sentences as text."""
    out = io.StringIO()
    Console(file=out, width=_WIDTH).print(table, *sentences, sep="\n", markup=False)
    return out.getvalue()


def table_html(table: Table, sentences: Sequence[str]) -> str:
    """The table as an HTML table, the sentences as paragraphs."""
    styles = [f' style="text-align: {column.justify}"' for column in table.columns]
    header = [str(column.header) for column in table.columns]
    body = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    lines = [_html_row("th", header, styles), "</thead><tbody>", *(_html_row("td", row, styles) for row in body)]
    paragraphs = [f"<p>{escape(sentence)}</p>" for sentence in sentences]
    return "\n".join(["<table><thead>", *lines, "</tbody></table>", *paragraphs])


def without_accuracy(table: Table) -> Table:
    """The table without its columns of accuracy, for scores that have none."""
    kept = [column for column in table.columns if "accuracy" not in str(column.header)]
    reduced = Table(*kept, title=table.title, caption=table.caption, header_style="bold", box=table.box)
    reduced.title_justify, reduced.rows = table.title_justify, list(table.rows)
    return reduced


def _html_row(tag: str, cells: Sequence[str], styles: Sequence[str]) -> str:
    """One row of a table."""
    written = (
        f"<{tag}{style}>{escape(cell).replace(chr(10), '<br>')}</{tag}>"
        for cell, style in zip(cells, styles, strict=True)
    )
    return f"<tr>{''.join(written)}</tr>"
