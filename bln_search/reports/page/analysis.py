"""Sections of the analysis, the charts, the probes and the drift of batch statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from bln_search.core.enums import ProbeKind
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.grouping import RowKeyWithoutConfiguration
from bln_search.ranking.probe_results import compute_batch_dependence_by_row
from bln_search.reports.charts.chart import unique_setting_labels
from bln_search.reports.charts.comparison import differences_to_best_chart, variance_shares_chart
from bln_search.reports.charts.configurations import switch_effects_chart
from bln_search.reports.charts.curves import ERROR, LOSS, learning_curves_chart
from bln_search.reports.charts.evaluation_settings import (
    best_point_configuration_ranks_chart,
    lowest_mean_loss_of_setting,
    search_measure_name,
    search_point_results_from_rows,
    search_point_results_from_trials,
    setting_configurations_chart,
)
from bln_search.reports.charts.layers import (
    CURVATURE,
    EFFECTIVE_RATE,
    WEIGHT_NORM,
    geometry_by_epoch_chart,
    statistics_drift_chart,
)
from bln_search.reports.charts.probes import batch_dependence_chart, latency_chart, probe_curve_chart
from bln_search.reports.charts.ranked_rows import condition_losses_chart
from bln_search.reports.charts.search import (
    loss_and_time_pareto_chart,
    parallel_coordinates_chart,
    parameter_importance_chart,
)
from bln_search.reports.charts.search_progress import schedules_chart, search_history_chart
from bln_search.reports.formatting import recommended_row_key, verdict_confidence_text
from bln_search.reports.metric_columns import capitalize
from bln_search.reports.page.blocks import Block, ChartFigure, Paragraph, Section, Table, figures_of_existing_charts
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.terminal.comparison import row_comparison_table

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
                context.leaderboard,
                unit=spec.loss_description.unit,
                ranking=spec.ranking_condition_name,
                recommended=recommended_row_key(context.analysis),
            ),
            best_point_configuration_ranks_chart(context.chart_losses_by_setting, _MAX_RANKED_SETTINGS),
            search_history_chart(context.tried_points, search_measure_name(spec)),
            schedules_chart(context.tried_points, spec.space or {}, search_measure_name(spec)),
            parameter_importance_chart(points, search_measure_name(spec)),
            parallel_coordinates_chart(points, search_measure_name(spec)),
            loss_and_time_pareto_chart(points, unit=spec.loss_description.unit),
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
    unit = context.study.spec.loss_description.unit
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
            setting_configurations_chart(
                losses,
                context.leaderboard,
                setting,
                context.analysis,
                unit=unit,
            ),
            switch_effects_chart(losses, unit=unit),
            label=labels[setting],
        )


_MAX_PROBE_SETTINGS = 4
"""Number of evaluation settings whose probes are drawn."""


def analysis_section(context: StudyReportContext) -> Section | None:
    """The analysis as text, the compared rows, and their charts; None without an analysis."""
    analysis = context.analysis
    if analysis is None:
        return None
    blocks: list[Block] = [Paragraph(text) for text in analysis_sentences(analysis)]
    if analysis.comparison is not None:
        loss = context.study.spec.loss_description
        blocks.append(_comparison_table(analysis.comparison, loss.text))
        blocks += figures_of_existing_charts(
            differences_to_best_chart(
                analysis.comparison, unit=loss.unit, recommended=recommended_row_key(context.analysis)
            )
        )
    for arm, point in dict.fromkeys((shares.arm, shares.point) for shares in analysis.shares):
        blocks += figures_of_existing_charts(variance_shares_chart(analysis.shares, arm, point), label=arm)
    blocks += figures_of_existing_charts(latency_chart(analysis.latencies, analysis.device, analysis.threads))
    return Section("interpretation", "Interpretation", blocks) if blocks else None


def _comparison_table(comparison: Comparison, score: str) -> Table:
    title = f"Compared rows: each beside the best one ({verdict_confidence_text(comparison.level)})"
    table = row_comparison_table(comparison, title, score=score)
    columns = [
        column if column.name == "p (corrected)" else replace(column, heading=capitalize(column.full_heading))
        for column in table.columns_with_values
    ]
    # in a terminal no row is bold where none is worse; here the best ones are marked all the same
    styles = [None if row.is_worse else "bold" for row in comparison.rows]
    return Table(replace(table, columns=columns, row_styles=styles))


def probes_section(context: StudyReportContext) -> Section | None:
    """Batch sizes, epochs and batch compositions under the first evaluation settings; None without probes."""
    dependence = compute_batch_dependence_by_row(context.probes, per_slot=context.study.spec.has_populations_per_slot)
    unit = context.study.spec.loss_description.unit
    blocks: list[Block] = []
    for setting in list(context.chart_losses_by_setting)[:_MAX_PROBE_SETTINGS]:
        arm, point, estimate = setting.arm, setting.point, setting.estimate or ""
        blocks += figures_of_existing_charts(
            probe_curve_chart(context.probes, ProbeKind.SIZE, arm, point, estimate, unit=unit),
            probe_curve_chart(context.probes, ProbeKind.EPOCH, arm, point, estimate, unit=unit),
            batch_dependence_chart(dependence, arm, point, estimate, unit=unit),
            label=_arm_and_estimate_label(setting),
        )
    return Section("probes", "Other batch sizes, epochs and batch compositions", blocks) if blocks else None


def _arm_and_estimate_label(setting: RowKeyWithoutConfiguration) -> str:
    return " ".join(part for part in (setting.arm, setting.estimate) if part)
