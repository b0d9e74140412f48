"""The best per-layer configurations as a table for a terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from bln_search.core.per_layer import SEPARATOR
from bln_search.ranking.per_layer import PerLayerResult, PerLayerRow
from bln_search.reports.formatting import rounded
from bln_search.reports.sentences.per_layer import accuracy_of, loss_of

_LAYERS_PER_LINE = 12


def layer_table(result: PerLayerResult, top: int = 10, title: str = "") -> Table:
    """The best per-layer configurations, which can be copied, and the best uniform one.

    Args:
        result: Result of the search.
        top: Number of per-layer configurations.
        title: Title of the table.
    """
    table = Table(title=Text(title), title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("place", justify="right")
    table.add_column("configuration", overflow="fold")
    for name in ("validation loss", "accuracy %"):
        table.add_column(name, justify="right")
    for position, row in enumerate(result.rows[:top], start=1):
        table.add_row(str(position), _wrap_configuration(row), *_metric_cells(row))
    for row in result.uniform[:1]:
        table.add_row("uniform", f"{row.configuration} in all layers", *_metric_cells(row), style="bold")
    return table


def _wrap_configuration(row: PerLayerRow) -> str:
    """Configurations of the layers, several per line."""
    configurations = row.configuration.split(SEPARATOR)
    starts = range(0, len(configurations), _LAYERS_PER_LINE)
    return f"{SEPARATOR}\n".join(SEPARATOR.join(configurations[start : start + _LAYERS_PER_LINE]) for start in starts)


def _metric_cells(row: PerLayerRow) -> tuple[str, str]:
    return rounded(loss_of(row)), rounded(accuracy_of(row), 100, 2)
