"""Render blocks as the output of a notebook's cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.svg.draw import draw_svg
from bln_search.reports.notebook.table import ROOT, render_table
from bln_search.reports.page.blocks import (
    Block,
    ChartFigure,
    Code,
    DefinitionList,
    Paragraph,
    Table,
    figures_of_existing_charts,
)
from bln_search.reports.tables.columns import join_column_legends
from bln_search.reports.tables.fitted_table import FittedTable

_STYLES = Path(__file__).parents[1] / "templates" / "notebook.css"


def render_notebook_html(blocks: Sequence[Block]) -> str:
    """Return blocks as HTML without scripts and addresses, in the colors of the notebook; all texts are escaped."""
    return f'<div class="{ROOT}"><style>{_read_styles()}</style>{"".join(map(_render_block, blocks))}</div>'


def make_table_blocks(table: FittedTable, more: str = "", picture: Chart | None = None) -> list[Block]:
    """A table with its notes and the meaning of its columns, and a picture.

    Args:
        table: The table.
        more: Sentence on where to get rows that are not shown.
        picture: The chart below it; None without one.
    """
    legend = join_column_legends(table.columns_with_values)
    notes = [Paragraph(text) for text in (*table.notes, legend) if text]
    return [Table(table, more), *notes, *figures_of_existing_charts(picture)]


@cache
def _read_styles() -> str:
    return _STYLES.read_text(encoding="utf-8")


def _render_block(block: Block) -> str:
    match block:
        case Table():
            return render_table(block)
        case ChartFigure():
            caption = f"{block.title}. {block.chart.caption}".strip()
            text = f"<figcaption>{escape(caption)}</figcaption>"
            return f'<figure style="display:none">{text}{draw_svg(block.chart)}</figure>'
        case Paragraph():
            return f'<p class="warning">{escape(block.text)}</p>' if block.warning else f"<p>{escape(block.text)}</p>"
        case Code():
            return f"<pre>{escape(block.text)}</pre>"
        case DefinitionList():
            pairs = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in block.pairs)
            return f"<dl>{''.join(pairs)}</dl>"
