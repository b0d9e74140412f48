"""A comparison of rows as a table for a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from bln_search.ranking.comparison import Comparison
from bln_search.reports.formatting import difference_cells, group_mark
from bln_search.specs.space import format_point_json


def comparison_table(comparison: Comparison, title: str = "") -> Table:
    """Every row with its letters, rank interval and difference to the best row."""
    table = Table(title=Text(title) if title else None, title_justify="left", header_style="bold")
    has_arms = len({row.arm for row in comparison.rows}) > 1
    has_points = any(row.point for row in comparison.rows)
    has_batch_sizes = len({row.batch_size for row in comparison.rows}) > 1
    identity = [name for name, is_shown in (("arm", has_arms), ("parameters", has_points)) if is_shown]
    for column in ("place", "group", *identity, "configuration", "population", *(["batch"] if has_batch_sizes else [])):
        table.add_column(column, justify="right" if column in ("place", "batch") else "left")
    for column in (f"{comparison.split} loss", "less the best (95 %)", "p (Holm)", "accuracy %", "ranks", "first"):
        table.add_column(column, justify="right")
    for index, row in enumerate(comparison.rows):
        cells = [str(index + 1), group_mark(row)]
        cells += [row.arm] if has_arms else []
        cells += [format_point_json(row.point)] if has_points else []
        cells += [row.configuration, row.estimate or "–", *([str(row.batch_size)] if has_batch_sizes else [])]
        cells += [f"{row.loss:.4f}", *difference_cells(comparison.pair(0, index)), f"{row.accuracy:.2%}".rstrip("%")]
        cells += [f"{row.lowest_rank}–{row.highest_rank}", f"{row.first_share:.0%}"]
        table.add_row(*cells, style="bold" if row.in_top_group else None)
    return table
