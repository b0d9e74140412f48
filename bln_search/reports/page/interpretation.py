"""Sections of the analysis and of the probes."""

from __future__ import annotations

from dataclasses import replace

from bln_search.core.enums import ProbeKind
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.grouping import RowKeyWithoutConfiguration
from bln_search.ranking.probe_results import compute_batch_dependence_by_row
from bln_search.reports.charts.comparison import differences_to_best_chart
from bln_search.reports.charts.probes import batch_dependence_chart, latency_chart, probe_curve_chart
from bln_search.reports.charts.variance import variance_shares_chart
from bln_search.reports.leaderboard_columns import capitalize
from bln_search.reports.page.blocks import Block, Paragraph, Section, Table, figures_of_existing_charts
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.sentences.analysis import analysis_sentences
from bln_search.reports.terminal.comparison import row_comparison_table

_MAX_PROBE_SETTINGS = 4
"""Number of evaluation settings whose probes are drawn."""


def analysis_section(context: StudyReportContext) -> Section | None:
    """The analysis as text, the compared rows, and their charts; None without an analysis."""
    analysis = context.analysis
    if analysis is None:
        return None
    blocks: list[Block] = [Paragraph(text) for text in analysis_sentences(analysis)]
    if analysis.comparison is not None:
        blocks.append(_comparison_table(analysis.comparison, context.study.spec.loss_description.text))
        blocks += figures_of_existing_charts(differences_to_best_chart(analysis.comparison))
    for arm, point in dict.fromkeys((shares.arm, shares.point) for shares in analysis.shares):
        blocks += figures_of_existing_charts(variance_shares_chart(analysis.shares, arm, point), label=arm)
    blocks += figures_of_existing_charts(latency_chart(analysis.latencies, analysis.device, analysis.threads))
    return Section("interpretation", "Interpretation", blocks) if blocks else None


def _comparison_table(comparison: Comparison, score: str) -> Table:
    title = "Compared rows: each beside the best one (95 %, corrected for all rows)"
    table = row_comparison_table(comparison, title, score=score)
    columns = [replace(column, heading=capitalize(column.full_heading)) for column in table.columns_with_values]
    return Table(replace(table, columns=columns))


def probes_section(context: StudyReportContext) -> Section | None:
    """Batch sizes, epochs and batch compositions under the first evaluation settings; None without probes."""
    dependence = compute_batch_dependence_by_row(context.probes, per_slot=context.study.spec.has_populations_per_slot)
    blocks: list[Block] = []
    for setting in list(context.chart_losses_by_setting)[:_MAX_PROBE_SETTINGS]:
        arm, point, estimate = setting.arm, setting.point, setting.estimate or ""
        blocks += figures_of_existing_charts(
            probe_curve_chart(context.probes, ProbeKind.SIZE, arm, point, estimate),
            probe_curve_chart(context.probes, ProbeKind.EPOCH, arm, point, estimate),
            batch_dependence_chart(dependence, arm, point, estimate, unit=context.study.spec.loss_description.unit),
            label=_arm_and_estimate_label(setting),
        )
    return Section("probes", "Other batch sizes, epochs and batch compositions", blocks) if blocks else None


def _arm_and_estimate_label(setting: RowKeyWithoutConfiguration) -> str:
    return " ".join(part for part in (setting.arm, setting.estimate) if part)
