"""Sections of the charts and of the drift of batch statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from bln_search.reports.charts.chart import unique_setting_labels
from bln_search.reports.charts.condition_losses import condition_losses_chart
from bln_search.reports.charts.configurations import configuration_losses_heat_map, switch_effects_chart
from bln_search.reports.charts.curves import ERROR, LOSS, learning_curves_chart
from bln_search.reports.charts.evaluation_settings import (
    best_point_configuration_ranks_chart,
    lowest_mean_loss_of_setting,
    reasons_for_missing_loss_by_configuration,
    search_point_results_from_rows,
)
from bln_search.reports.charts.geometry import CURVATURE, EFFECTIVE_RATE, WEIGHT_NORM, geometry_by_epoch_chart
from bln_search.reports.charts.layers import statistics_drift_chart
from bln_search.reports.charts.search import (
    loss_and_time_pareto_chart,
    parallel_coordinates_chart,
    parameter_importance_chart,
)
from bln_search.reports.charts.search_trials import search_measure_name, search_point_results_from_trials
from bln_search.reports.page.blocks import Block, ChartFigure, Paragraph, Section, figures_of_existing_charts
from bln_search.reports.page.context import StudyReportContext

_MAX_SETTINGS = 6
"""Number of evaluation settings with a heat map and effects."""

_MAX_RANKED_SETTINGS = 40


def charts_section(context: StudyReportContext) -> Section | None:
    """Learning curves, configurations and switches of the best evaluation settings, ranks, and charts of the search."""
    spec = context.study.spec
    if spec.trains_best_points_after_search:
        points = search_point_results_from_trials(context.trials, spec)
    else:
        points = search_point_results_from_rows(context.losses_by_row, context.seconds)
    pictures = [
        *figures_of_existing_charts(
            *(
                learning_curves_chart(context.curves, len(context.trials), metric, unit=spec.loss_description.unit)
                for metric in (LOSS, ERROR)
            )
        ),
        *_iter_best_setting_figures(context),
        *figures_of_existing_charts(
            condition_losses_chart(
                context.leaderboard, unit=spec.loss_description.unit, ranking=spec.ranking_condition_name
            ),
            best_point_configuration_ranks_chart(context.chart_losses_by_setting, _MAX_RANKED_SETTINGS),
            parameter_importance_chart(points, search_measure_name(spec)),
            parallel_coordinates_chart(points, search_measure_name(spec)),
            loss_and_time_pareto_chart(points),
        ),
    ]
    if not pictures:
        return None
    blocks: list[Block] = [Paragraph(f"Losses of configurations are those on {context.ranking_split}."), *pictures]
    return Section("charts", "Charts", blocks)


def drift_section(context: StudyReportContext) -> Section | None:
    """Variation of the batch statistics in each layer by arm; None where no network recorded it."""
    blocks = [
        picture
        for arm, by_seed in context.drifts.items()
        for picture in figures_of_existing_charts(statistics_drift_chart(by_seed), label=arm)
    ]
    return Section("drift", "Drift of the batch statistics by layer", blocks) if blocks else None


def geometry_section(context: StudyReportContext) -> Section | None:
    """Weight norms, effective learning rates and curvature by epoch; None where no network recorded them."""
    measures = (WEIGHT_NORM, EFFECTIVE_RATE, CURVATURE)
    pictures = list(
        figures_of_existing_charts(*(geometry_by_epoch_chart(context.geometries, measure) for measure in measures))
    )
    return Section("geometry", "Geometry of training", pictures) if pictures else None


def _iter_best_setting_figures(context: StudyReportContext) -> Iterable[ChartFigure]:
    """Figures of the evaluation settings of lowest loss: the best one of every arm, then the second, and so on."""
    labels = unique_setting_labels(context.chart_losses_by_setting)
    count_by_arm: Counter[str] = Counter()
    position_in_arm = {}
    for setting in sorted(
        context.chart_losses_by_setting,
        key=lambda setting: lowest_mean_loss_of_setting(context.chart_losses_by_setting[setting]),
    ):
        position_in_arm[setting] = count_by_arm[setting.arm]
        count_by_arm[setting.arm] += 1
    for setting in sorted(position_in_arm, key=position_in_arm.__getitem__)[:_MAX_SETTINGS]:
        losses = context.chart_losses_by_setting[setting]
        yield from figures_of_existing_charts(
            configuration_losses_heat_map(
                losses, reasons_for_missing_loss_by_configuration(context.leaderboard, setting)
            ),
            switch_effects_chart(losses),
            label=labels[setting],
        )
