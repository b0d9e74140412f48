"""The charts of a study, those that apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bln_search.reports.charts import Chart
from bln_search.reports.charts.chart import condition_labels
from bln_search.reports.charts.conditions import lowest, point_results, ranks_of_best
from bln_search.reports.charts.configurations import effects_chart, heat_map
from bln_search.reports.charts.curves import ERROR, LOSS, curves_chart
from bln_search.reports.charts.layers import drift_chart
from bln_search.reports.charts.search import importance_chart, parallel_chart, pareto_chart
from bln_search.reports.page.blocks import Block, Paragraph, Picture, Section
from bln_search.reports.page.context import Material

_MOST_CONDITIONS = 6
"""Heat maps and effects on the page."""

_MOST_RANKS = 40


def charts(material: Material) -> Section | None:
    """Losses and errors by epoch, configurations and switches of the best conditions, ranks, what a search found."""
    points = point_results(material.losses, material.seconds)
    pictures = [
        *_pictures(*(curves_chart(material.curves, len(material.trials), metric) for metric in (LOSS, ERROR))),
        *_by_condition(material),
        *_pictures(
            ranks_of_best(material.conditions, _MOST_RANKS),
            importance_chart(points),
            parallel_chart(points),
            pareto_chart(points),
        ),
    ]
    if not pictures:
        return None
    blocks: list[Block] = [Paragraph(f"Losses of configurations are those on {material.split}."), *pictures]
    return Section("charts", "Charts", blocks)


def layers(material: Material) -> Section | None:
    """How far mini-batches scatter in each layer, by arm; None where no network recorded it."""
    blocks = [
        picture for arm, by_seed in material.drifts.items() for picture in _pictures(drift_chart(by_seed), about=arm)
    ]
    return Section("layers", "What each layer drifted", blocks) if blocks else None


def _by_condition(material: Material) -> Iterable[Picture]:
    """Of the conditions with the lowest losses: the best of every arm, then the second of every arm, and so on."""
    labels = condition_labels(material.conditions)
    turns: Counter[str] = Counter()
    places = {}
    for one in sorted(material.conditions, key=lambda one: lowest(material.conditions[one])):
        places[one] = turns[one.arm]
        turns[one.arm] += 1
    for condition in sorted(places, key=places.__getitem__)[:_MOST_CONDITIONS]:
        losses = material.conditions[condition]
        yield from _pictures(heat_map(losses), effects_chart(losses), about=labels[condition])


def _pictures(*charts: Chart | None, about: str = "") -> list[Picture]:
    return [Picture(one, about) for one in charts if one is not None]
