"""Section of per-layer configurations: best configurations, held-out losses by network, effects of the switches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bln_search.core.per_layer import SEPARATOR
from bln_search.ranking.per_layer import LayerSwitchEffect, PerLayerResult, PerLayerRow, SelectedNetworkConfigurations
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.charts.per_layer import (
    MARK,
    effects_by_choice_and_statistic,
    format_effect_with_interval,
    layer_switch_effects_heat_map,
    switchable_statistics,
)
from bln_search.reports.formatting import format_metric_interval, format_signed_interval
from bln_search.reports.page.blocks import Block, ChartFigure, Column, ColumnKind, Paragraph, Row, Section, Table
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.sentences.per_layer import (
    accuracy_interval_over_networks,
    arm_and_point_label,
    excluded_option_sentences,
    loss_interval_over_networks,
    per_layer_sentences,
    switch_effects_definition,
)

_MAX_RESULTS = 6
"""Number of arms and points on the page."""

_MAX_ROWS = 10

_NETWORK_HEADINGS = (
    *("Seed", "Apparent loss", "Held-out loss", "Selection bias", "Uniform, held-out", "Difference"),
    *("Test loss", "Test, uniform", "Evaluated"),
)
_CONFIGURATION_COLUMNS = (Column("Uniform", ColumnKind.CONFIGURATION), Column("Chosen", ColumnKind.CONFIGURATION))
_LOSS_COLUMN, _ACCURACY_COLUMN = Column("Validation loss", ColumnKind.NUMBER), Column("Accuracy %", ColumnKind.NUMBER)


def per_layer_section(context: StudyReportContext) -> Section | None:
    """One part for each searched arm and point; None without a per-layer search."""
    results = () if context.analysis is None else context.analysis.layers
    if not results:
        return None
    blocks = [
        block for result in results[:_MAX_RESULTS] for block in _blocks_of_result(result, several=len(results) > 1)
    ]
    if len(results) > _MAX_RESULTS:
        note = f"The first {_MAX_RESULTS} of {len(results)} arms and points are shown. "
        blocks.append(Paragraph(f"{note}All of them: bln-search layers {context.study.name}"))
    return Section("per-layer", "Per-layer configurations", blocks)


def _blocks_of_result(result: PerLayerResult, *, several: bool) -> list[Block]:
    label = arm_and_point_label(result) if several else ""
    text = " ".join(per_layer_sentences(result))
    blocks: list[Block] = [Paragraph(f"{label}: {text}" if label else text)]
    if result.rows or result.uniform:
        blocks.append(best_configurations_table(result, _MAX_ROWS, label))
    if result.networks:
        blocks.append(selected_configurations_by_network_table(result, label))
    chart = layer_switch_effects_heat_map(result)
    if chart is not None:
        blocks += [ChartFigure(chart, label), layer_switch_effects_table(result, label)]
    return blocks + [Paragraph(text) for text in excluded_option_sentences(result)]


def best_configurations_table(result: PerLayerResult, limit: int, label: str = "") -> Table:
    """The best configurations with one column per layer, and the best uniform one below them."""
    columns = [
        Column("Place"),
        *_metric_columns(result),
        *(Column(name, ColumnKind.CONFIGURATION) for name in result.layers),
    ]
    rows = [
        Row([str(position), *_metric_cells(row, result), *split_configuration_by_layer(row, result)])
        for position, row in enumerate(result.rows[:limit], start=1)
    ]
    rows += [
        Row(["best uniform", *_metric_cells(row, result), *split_configuration_by_layer(row, result)], "first")
        for row in result.uniform[:1]
    ]
    caption = f"The best {min(limit, len(result.rows))} by mean loss, on the examples used for the selection"
    return Table(_caption_with_label(caption, label), columns, rows)


def uniform_configurations_table(result: PerLayerResult, label: str = "") -> Table:
    """All uniform configurations."""
    columns = [Column("Configuration", ColumnKind.CONFIGURATION), *_metric_columns(result)]
    rows = [Row([row.configuration, *_metric_cells(row, result)]) for row in result.uniform]
    return Table(
        _caption_with_label("Uniform configurations: the same in all layers", label), columns, rows, folded=True
    )


def split_configuration_by_layer(row: PerLayerRow, result: PerLayerResult) -> list[str]:
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


def selected_configurations_by_network_table(result: PerLayerResult, label: str = "") -> Table:
    """The configurations selected for each network, with apparent and held-out losses."""
    columns = [*(Column(name, ColumnKind.NUMBER) for name in _NETWORK_HEADINGS), *_CONFIGURATION_COLUMNS]
    rows = [Row(_network_cells(network)) for network in result.networks]
    return Table(
        _caption_with_label("Networks: selected configurations with their apparent and held-out losses", label),
        columns,
        rows,
    )


def _network_cells(network: SelectedNetworkConfigurations) -> list[str]:
    losses = (network.apparent, network.loss, network.selection_bias, network.uniform_loss)
    cells = [str(network.seed), *(f"{loss:.4f}" for loss in losses), _difference_cell(network.difference_to_uniform)]
    cells += ["–" if loss is None else f"{loss:.4f}" for loss in (network.test_loss, network.test_uniform_loss)]
    return [*cells, f"{network.evaluations:,.0f}", network.uniform, network.best]


def _difference_cell(difference: float) -> str:
    return "–" if math.isnan(difference) else format_signed_interval(ConfidenceInterval(difference, None, 1))


def layer_switch_effects_table(result: PerLayerResult, label: str = "") -> Table:
    """Effects of the switches by choice, with confidence intervals; marked if these exclude 0."""
    switches = switchable_statistics(result)
    columns = [Column("Choice"), *(Column(name, ColumnKind.NUMBER) for name in switches)]
    rows = [
        Row([choice, *(_effect_cell(effects[name]) if name in effects else "–" for name in switches)])
        for choice, effects in effects_by_choice_and_statistic(result).items()
    ]
    caption = f"{switch_effects_definition(result)}; {MARK} where the 95 % confidence interval over networks excludes 0"
    return Table(_caption_with_label(caption, label), columns, rows)


def _effect_cell(effect: LayerSwitchEffect) -> str:
    return (
        f"{format_effect_with_interval(effect)} {MARK}" if effect.excludes_zero else format_effect_with_interval(effect)
    )


def _metric_columns(result: PerLayerResult) -> Sequence[Column]:
    return (_LOSS_COLUMN, _ACCURACY_COLUMN) if result.has_accuracy else (_LOSS_COLUMN,)


def _metric_cells(row: PerLayerRow, result: PerLayerResult) -> Sequence[str]:
    loss = format_metric_interval(loss_interval_over_networks(row), "loss")
    if not result.has_accuracy:
        return (loss,)
    return loss, format_metric_interval(accuracy_interval_over_networks(row), "accuracy")


def _caption_with_label(caption: str, label: str) -> str:
    return f"{caption}: {label}" if label else caption
