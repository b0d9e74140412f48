"""Per-layer configurations: the best ones, what was confirmed for each network, and what switches do where."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bln_search.core.per_layer import SEPARATOR
from bln_search.ranking.per_layer import LayerResult, LayerRow, NetworkChoice, SwitchEffect
from bln_search.ranking.statistics.intervals import Interval
from bln_search.reports.charts.per_layer import (
    MARK,
    effect_grid,
    effect_words,
    layer_switches_chart,
    switches_of,
)
from bln_search.reports.formatting import rounded, signed
from bln_search.reports.page.blocks import Block, Column, Kind, Paragraph, Picture, Row, Section, Table
from bln_search.reports.page.context import Material
from bln_search.reports.per_layer import (
    accuracy_of,
    effects_heading,
    layer_lines,
    left_out_lines,
    loss_of,
    result_label,
)

_MOST_RESULTS = 6
"""Arms and points on the page."""

_MOST_ROWS = 10

_OF_NETWORKS = (
    *("Seed", "Apparent loss", "Confirmed loss", "Shrinkage", "Uniform, confirmed", "Difference"),
    *("Test loss", "Test, uniform", "Evaluated"),
)
_WORDS = (Column("Uniform", Kind.WORD), Column("Chosen", Kind.WORD))
_FIGURES = (Column("Validation loss", Kind.NUMBER), Column("Accuracy %", Kind.NUMBER))


def per_layer(material: Material) -> Section | None:
    """What was searched layer by layer, an arm and point after the other; None where nothing was."""
    found = () if material.analysis is None else material.analysis.layers
    if not found:
        return None
    blocks = [block for result in found[:_MOST_RESULTS] for block in _blocks(result, several=len(found) > 1)]
    if len(found) > _MOST_RESULTS:
        told = f"The first {_MOST_RESULTS} of {len(found)} arms and points stand above. "
        blocks.append(Paragraph(f"{told}All of them: bln-search layers {material.study.name}"))
    return Section("per-layer", "Per layer", blocks)


def _blocks(result: LayerResult, *, several: bool) -> list[Block]:
    label = result_label(result) if several else ""
    words = " ".join(layer_lines(result))
    blocks: list[Block] = [Paragraph(f"{label}: {words}" if label else words)]
    if result.rows or result.uniform:
        blocks.append(rows_table(result, _MOST_ROWS, label))
    if result.networks:
        blocks.append(networks_table(result, label))
    chart = layer_switches_chart(result)
    if chart is not None:
        blocks += [Picture(chart, label), effects_table(result, label)]
    return blocks + [Paragraph(line) for line in left_out_lines(result)]


def rows_table(result: LayerResult, most: int, label: str = "") -> Table:
    """The best rows, a column a layer, and the best uniform one below them."""
    columns = [Column("Place"), *_FIGURES, *(Column(name, Kind.WORD) for name in result.layers)]
    rows = [
        Row([str(place), *_figures(row), *words_of(row, result)])
        for place, row in enumerate(result.rows[:most], start=1)
    ]
    rows += [Row(["best uniform", *_figures(row), *words_of(row, result)], "first") for row in result.uniform[:1]]
    caption = f"The best {min(most, len(result.rows))} by mean loss, on the examples that chose them"
    return Table(_about(caption, label), columns, rows)


def uniform_table(result: LayerResult, label: str = "") -> Table:
    """All configurations that are alike in all layers."""
    columns = [Column("Configuration", Kind.WORD), *_FIGURES]
    rows = [Row([row.configuration, *_figures(row)]) for row in result.uniform]
    return Table(_about("Uniform configurations: alike in all layers", label), columns, rows, folded=True)


def words_of(row: LayerRow, result: LayerResult) -> list[str]:
    """The word of each layer; a uniform one without the letters of statistics that a layer does not have."""
    words = row.configuration.split(SEPARATOR)
    if len(words) == len(result.layers):
        return words
    kept = result.best.configuration.split(SEPARATOR) if result.best else words * len(result.layers)
    return [_followed(words[0], own) for own in kept]


def _followed(word: str, own: str) -> str:
    return "".join("-" if there == "-" else letter for letter, there in zip(word, own, strict=True))


def networks_table(result: LayerResult, label: str = "") -> Table:
    """What was chosen for each network, what it looked like, and what it is worth."""
    columns = [*(Column(name, Kind.NUMBER) for name in _OF_NETWORKS), *_WORDS]
    rows = [Row(_network(one)) for one in result.networks]
    return Table(_about("Networks: what was chosen for each, and what that is worth", label), columns, rows)


def _network(one: NetworkChoice) -> list[str]:
    losses = (one.apparent, one.loss, one.shrinkage, one.uniform_loss)
    cells = [str(one.seed), *(f"{loss:.4f}" for loss in losses), _signed(one.difference)]
    cells += ["–" if loss is None else f"{loss:.4f}" for loss in (one.test_loss, one.test_uniform_loss)]
    return [*cells, f"{one.evaluations:,.0f}", one.uniform, one.best]


def _signed(difference: float) -> str:
    return "–" if math.isnan(difference) else signed(Interval(difference, None, 1))


def effects_table(result: LayerResult, label: str = "") -> Table:
    """What each switch does in each layer, with intervals; marked where they exclude 0."""
    switches = switches_of(result)
    columns = [Column("Choice"), *(Column(name, Kind.NUMBER) for name in switches)]
    rows = [
        Row([choice, *(_effect(effects[name]) if name in effects else "–" for name in switches)])
        for choice, effects in effect_grid(result).items()
    ]
    caption = f"Nats: {effects_heading(result)}; {MARK} where the 95 % interval over networks excludes 0"
    return Table(_about(caption, label), columns, rows)


def _effect(one: SwitchEffect) -> str:
    return f"{effect_words(one)} {MARK}" if one.excludes_zero else effect_words(one)


def _figures(row: LayerRow) -> Sequence[str]:
    return rounded(loss_of(row)), rounded(accuracy_of(row), 100, 2)


def _about(caption: str, label: str) -> str:
    return f"{caption}: {label}" if label else caption
