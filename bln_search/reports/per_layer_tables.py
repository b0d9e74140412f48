"""Tables of a per-layer search, for terminal, report and page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bln_search.core.per_layer import SEPARATOR
from bln_search.ranking.per_layer import PerLayerResult, PerLayerRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.charts.per_layer import (
    MARK,
    effects_by_choice_and_statistic,
    format_effect_with_interval,
    switchable_statistics,
)
from bln_search.reports.formatting import format_metric_interval, format_signed_interval
from bln_search.reports.sentences.per_layer import (
    accuracy_interval_over_networks,
    loss_interval_over_networks,
    switch_effects_definition,
)
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

_LAYERS_PER_LINE = 12


def best_configurations_table(result: PerLayerResult, limit: int, label: str = "") -> FittedTable:
    """The best configurations with one column per layer, and the best uniform one below them."""
    best, uniform = result.rows[:limit], result.uniform[:1]
    by_row = [_split_configuration_by_layer(row, result) for row in (*best, *uniform)]
    columns = [
        Column("Place", [*map(str, range(1, len(best) + 1)), *("best uniform" for _ in uniform)]),
        *_metric_columns((*best, *uniform), result, ("Validation loss", "Accuracy %")),
        *(
            Column(layer, [configurations[position] for configurations in by_row], CellKind.CODE)
            for position, layer in enumerate(result.layers)
        ),
    ]
    caption = f"The best {min(limit, len(result.rows))} by mean loss, on the examples used for the selection"
    return FittedTable(columns, _caption_with_label(caption, label), row_styles=_row_styles(best, uniform))


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
    configurations = [
        *map(_break_configuration_into_lines, best),
        *(f"{row.configuration} in {searched}" for row in uniform),
    ]
    columns = [
        Column("rank", [*map(str, range(1, len(best) + 1)), *("uniform" for _ in uniform)], CellKind.NUMBER),
        Column("configuration", configurations),
        *_metric_columns(rows, result, ("validation loss", "accuracy %"), legend),
    ]
    return FittedTable(columns, title, row_styles=_row_styles(best, uniform))


def uniform_configurations_table(result: PerLayerResult) -> FittedTable:
    """All uniform configurations."""
    columns = [
        Column("Configuration", [row.configuration for row in result.uniform], CellKind.CODE),
        *_metric_columns(result.uniform, result, ("Validation loss", "Accuracy %")),
    ]
    return FittedTable(columns, "Uniform configurations: the same in all layers")


def selected_configurations_by_network_table(result: PerLayerResult, label: str = "") -> FittedTable:
    """The configurations selected for each network, with apparent and held-out losses."""
    networks = result.networks
    numbers = {
        "Seed": [str(network.seed) for network in networks],
        "Apparent loss": [f"{network.apparent:.4f}" for network in networks],
        "Held-out loss": [f"{network.loss:.4f}" for network in networks],
        "Selection bias": [f"{network.selection_bias:.4f}" for network in networks],
        "Uniform, held-out": [f"{network.uniform_loss:.4f}" for network in networks],
        "Difference": [_difference_cell(network.difference_to_uniform) for network in networks],
        "Test loss": [_loss_cell(network.test_loss) for network in networks],
        "Test, uniform": [_loss_cell(network.test_uniform_loss) for network in networks],
        "Evaluated": [f"{network.evaluations:,.0f}" for network in networks],
    }
    columns = [
        *(Column(name, cells, CellKind.NUMBER) for name, cells in numbers.items()),
        Column("Uniform", [network.uniform for network in networks], CellKind.CODE),
        Column("Chosen", [network.best for network in networks], CellKind.CODE),
    ]
    caption = "Networks: selected configurations with their apparent and held-out losses"
    return FittedTable(columns, _caption_with_label(caption, label))


def layer_switch_effects_table(result: PerLayerResult, label: str = "") -> FittedTable:
    """Effects of the switches by choice, with confidence intervals; marked if these exclude 0."""
    grid = effects_by_choice_and_statistic(result)

    def cell(choice: str, switch: str) -> str:
        effect = grid[choice].get(switch)
        if effect is None:
            return "–"
        return format_effect_with_interval(effect) + (f" {MARK}" if effect.excludes_zero else "")

    columns = [
        Column("Choice", list(grid)),
        *(
            Column(switch, [cell(choice, switch) for choice in grid], CellKind.NUMBER)
            for switch in switchable_statistics(result)
        ),
    ]
    caption = f"{switch_effects_definition(result)}; {MARK} where the 95 % confidence interval over networks excludes 0"
    return FittedTable(columns, _caption_with_label(caption, label))


def _metric_columns(
    rows: Sequence[PerLayerRow], result: PerLayerResult, names: tuple[str, str], legend: str = ""
) -> list[Column]:
    """Loss and, if the task has it, accuracy in per cent, with half of their confidence intervals over networks."""
    losses = [format_metric_interval(loss_interval_over_networks(row), "loss") for row in rows]
    columns = [Column(names[0], losses, CellKind.NUMBER, legend=legend)]
    if result.has_accuracy:
        accuracies = [format_metric_interval(accuracy_interval_over_networks(row), "accuracy") for row in rows]
        columns.append(Column(names[1], accuracies, CellKind.NUMBER))
    return columns


def _row_styles(best: Sequence[PerLayerRow], uniform: Sequence[PerLayerRow]) -> list[str | None]:
    return [*(None for _ in best), *("bold" for _ in uniform)]


def _break_configuration_into_lines(row: PerLayerRow) -> str:
    """Configurations of the layers, several per line."""
    configurations = row.configuration.split(SEPARATOR)
    starts = range(0, len(configurations), _LAYERS_PER_LINE)
    return f"{SEPARATOR}\n".join(SEPARATOR.join(configurations[start : start + _LAYERS_PER_LINE]) for start in starts)


def _split_configuration_by_layer(row: PerLayerRow, result: PerLayerResult) -> list[str]:
    """Configuration of each layer; a uniform one has no letters for statistics that a layer lacks."""
    configurations = row.configuration.split(SEPARATOR)
    if len(configurations) == len(result.layers):
        return configurations
    best_configurations = (
        result.best_row.configuration.split(SEPARATOR) if result.best_row else configurations * len(result.layers)
    )
    return [
        _mask_absent_statistics(configurations[0], layer_configuration) for layer_configuration in best_configurations
    ]


def _mask_absent_statistics(configuration: str, layer_configuration: str) -> str:
    """Replace the letters of statistics that the layer does not have by `-`."""
    return "".join(
        "-" if other == "-" else letter for letter, other in zip(configuration, layer_configuration, strict=True)
    )


def _difference_cell(difference: float) -> str:
    return "–" if math.isnan(difference) else format_signed_interval(ConfidenceInterval(difference, None, 1))


def _loss_cell(loss: float | None) -> str:
    return "–" if loss is None else f"{loss:.4f}"


def _caption_with_label(caption: str, label: str) -> str:
    return f"{caption}: {label}" if label else caption
