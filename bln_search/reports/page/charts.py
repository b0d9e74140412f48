"""Sections of the charts and of the drift of batch statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bln_search.reports.charts.chart import setting_labels
from bln_search.reports.charts.condition_losses import condition_losses_chart
from bln_search.reports.charts.configurations import effects_chart, heat_map
from bln_search.reports.charts.curves import ERROR, LOSS, curves_chart
from bln_search.reports.charts.evaluation_settings import (
    best_point_rank_chart,
    lowest_mean_loss_of_setting,
    point_results,
)
from bln_search.reports.charts.geometry import CURVATURE, EFFECTIVE_RATE, WEIGHT_NORM, geometry_chart
from bln_search.reports.charts.layers import drift_chart
from bln_search.reports.charts.search import importance_chart, parallel_coordinates_chart, pareto_chart
from bln_search.reports.page.blocks import Block, ChartFigure, Paragraph, Section, pictures_of
from bln_search.reports.page.context import ReportContext

_MAX_SETTINGS = 6
"""Number of evaluation settings with a heat map and effects."""

_MAX_RANKED_SETTINGS = 40


def charts_section(context: ReportContext) -> Section | None:
    """Learning curves, configurations and switches of the best evaluation settings, ranks, and charts of the search."""
    points = point_results(context.losses_by_row, context.seconds)
    spec = context.study.spec
    pictures = [
        *pictures_of(*(curves_chart(context.curves, len(context.trials), metric) for metric in (LOSS, ERROR))),
        *_setting_pictures(context),
        *pictures_of(
            condition_losses_chart(context.board, unit=spec.loss.unit, ranking=spec.ranking_condition),
            best_point_rank_chart(context.losses_by_setting, _MAX_RANKED_SETTINGS),
            importance_chart(points),
            parallel_coordinates_chart(points),
            pareto_chart(points),
        ),
    ]
    if not pictures:
        return None
    blocks: list[Block] = [Paragraph(f"Losses of configurations are those on {context.ranking_split}."), *pictures]
    return Section("charts", "Charts", blocks)


def drift_section(context: ReportContext) -> Section | None:
    """Variation of the batch statistics in each layer by arm; None where no network recorded it."""
    blocks = [
        picture for arm, by_seed in context.drifts.items() for picture in pictures_of(drift_chart(by_seed), label=arm)
    ]
    return Section("drift", "Drift of the batch statistics by layer", blocks) if blocks else None


def geometry_section(context: ReportContext) -> Section | None:
    """Weight norms, effective learning rates and curvature by epoch; None where no network recorded them."""
    measures = (WEIGHT_NORM, EFFECTIVE_RATE, CURVATURE)
    pictures = list(pictures_of(*(geometry_chart(context.geometries, measure) for measure in measures)))
    return Section("geometry", "Geometry of training", pictures) if pictures else None


def _setting_pictures(context: ReportContext) -> Iterable[ChartFigure]:
    """Pictures of the evaluation settings of lowest loss: the best one of every arm, then the second, and so on."""
    labels = setting_labels(context.losses_by_setting)
    count_by_arm: Counter[str] = Counter()
    position_in_arm = {}
    for setting in sorted(
        context.losses_by_setting,
        key=lambda setting: lowest_mean_loss_of_setting(context.losses_by_setting[setting]),
    ):
        position_in_arm[setting] = count_by_arm[setting.arm]
        count_by_arm[setting.arm] += 1
    for setting in sorted(position_in_arm, key=position_in_arm.__getitem__)[:_MAX_SETTINGS]:
        losses = context.losses_by_setting[setting]
        yield from pictures_of(heat_map(losses), effects_chart(losses), label=labels[setting])
