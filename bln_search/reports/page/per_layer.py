"""Section of per-layer configurations: best configurations, held-out losses by network, effects of the switches."""

from __future__ import annotations

from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.charts.per_layer import layer_switch_effects_heat_map
from bln_search.reports.page.blocks import Block, ChartFigure, Paragraph, Section, Table
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.per_layer_tables import (
    best_configurations_table,
    layer_switch_effects_table,
    selected_configurations_by_network_table,
)
from bln_search.reports.sentences.per_layer import arm_and_point_label, excluded_option_sentences, per_layer_sentences

_MAX_RESULTS = 6
"""Number of arms and points on the page."""

_MAX_ROWS = 10


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
        blocks.append(Table(best_configurations_table(result, _MAX_ROWS, label)))
    if result.networks:
        blocks.append(Table(selected_configurations_by_network_table(result, label)))
    chart = layer_switch_effects_heat_map(result)
    if chart is not None:
        blocks += [ChartFigure(chart, label), Table(layer_switch_effects_table(result, label))]
    return blocks + [Paragraph(text) for text in excluded_option_sentences(result)]
