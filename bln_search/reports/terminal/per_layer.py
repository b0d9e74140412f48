"""The best per-layer configurations as a table for a terminal."""

from __future__ import annotations

from bln_search.core.per_layer import SEPARATOR
from bln_search.ranking.per_layer import PerLayerResult, PerLayerRow
from bln_search.reports.formatting import format_metric_interval
from bln_search.reports.sentences.per_layer import accuracy_interval_over_networks, loss_interval_over_networks
from bln_search.reports.terminal.columns import CellKind, Column
from bln_search.reports.terminal.fitted_table import FittedTable

_LAYERS_PER_LINE = 12


def best_per_layer_configurations_table(
    result: PerLayerResult, top: int = 10, title: str = "", *, describe_loss: bool = False
) -> FittedTable:
    """The best per-layer configurations, which can be copied, and the best uniform one.

    Args:
        result: Result of the search.
        top: Number of per-layer configurations.
        title: Title of the table.
        describe_loss: Whether the legend says what the loss is, with its unit.
    """
    best, uniform = result.rows[:top], result.uniform[:1]
    rows = [*best, *uniform]
    searched = "all layers" if len(result.searched_layers) == len(result.layers) else "all searched layers"
    has_interval = any(row.loss_half is not None for row in rows)
    meaning = "± is half of the 95 % confidence interval over networks" if has_interval else ""
    legend = "; ".join(part for part in (f"loss: {result.loss.text}" if describe_loss else "", meaning) if part)
    columns = [
        Column("rank", [*map(str, range(1, len(best) + 1)), *("uniform" for _ in uniform)], CellKind.NUMBER),
        Column(
            "configuration",
            [*map(_break_configuration_into_lines, best), *(f"{row.configuration} in {searched}" for row in uniform)],
        ),
        Column(
            "validation loss",
            [format_metric_interval(loss_interval_over_networks(row), "loss") for row in rows],
            CellKind.NUMBER,
            legend=legend,
        ),
    ]
    if result.has_accuracy:
        accuracies = [format_metric_interval(accuracy_interval_over_networks(row), "accuracy") for row in rows]
        columns.append(Column("accuracy %", accuracies, CellKind.NUMBER))
    return FittedTable(columns, title, row_styles=[*(None for _ in best), *("bold" for _ in uniform)])


def _break_configuration_into_lines(row: PerLayerRow) -> str:
    """Configurations of the layers, several per line."""
    configurations = row.configuration.split(SEPARATOR)
    starts = range(0, len(configurations), _LAYERS_PER_LINE)
    return f"{SEPARATOR}\n".join(SEPARATOR.join(configurations[start : start + _LAYERS_PER_LINE]) for start in starts)
