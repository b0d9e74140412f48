"""Sections of the analysis and of the probes."""

from __future__ import annotations

from bln_search.core.enums import ProbeKind
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.grouping import EvaluationSetting
from bln_search.ranking.probe_results import batch_dependence
from bln_search.reports.charts.comparison import critical_difference_chart, differences_chart, row_labels
from bln_search.reports.charts.probes import batch_dependence_chart, latency_chart, probe_curve_chart
from bln_search.reports.charts.variance import variance_chart
from bln_search.reports.formatting import difference_cells, group_mark
from bln_search.reports.page.blocks import Block, Column, ColumnKind, Paragraph, Row, Section, Table, pictures_of
from bln_search.reports.page.context import ReportContext
from bln_search.reports.sentences.analysis import analysis_sentences

_MAX_PROBE_SETTINGS = 4
"""Number of evaluation settings whose probes are drawn."""


def analysis_section(context: ReportContext) -> Section | None:
    """The analysis as text, the compared rows, and their charts; None without an analysis."""
    analysis = context.analysis
    if analysis is None:
        return None
    blocks: list[Block] = [Paragraph(text) for text in analysis_sentences(analysis)]
    if analysis.comparison is not None:
        blocks.append(_comparison_table(analysis.comparison))
        blocks += pictures_of(differences_chart(analysis.comparison), critical_difference_chart(analysis.comparison))
    for arm, point in dict.fromkeys((shares.arm, shares.point) for shares in analysis.shares):
        blocks += pictures_of(variance_chart(analysis.shares, arm, point), label=arm)
    blocks += pictures_of(latency_chart(analysis.latencies, analysis.device, analysis.threads))
    return Section("interpretation", "Interpretation", blocks) if blocks else None


def _comparison_table(comparison: Comparison) -> Table:
    columns = [Column("Row"), Column("Group"), Column(f"{comparison.split.value.capitalize()} loss", ColumnKind.NUMBER)]
    columns += [Column("Less the best (95 %)", ColumnKind.NUMBER), Column("p (Holm)", ColumnKind.NUMBER)]
    has_accuracy = all(row.accuracy is not None for row in comparison.rows)
    columns += [Column("Accuracy %", ColumnKind.NUMBER)] if has_accuracy else []
    columns += [Column("Ranks", ColumnKind.NUMBER), Column("First", ColumnKind.NUMBER)]
    rows = []
    for index, (row, label) in enumerate(zip(comparison.rows, row_labels(comparison.rows), strict=True)):
        cells = [label, group_mark(row), f"{row.loss:.4f}", *difference_cells(comparison.pair(0, index))]
        cells += [] if row.accuracy is None else [f"{100 * row.accuracy:.2f}"]
        cells += [f"{row.lowest_rank}–{row.highest_rank}", f"{row.first_share:.0%}"]
        rows.append(Row(cells, "first" if row.in_top_group else ""))
    caption = "Compared rows (compact letter display): rows that share a letter are not significantly different"
    return Table(caption, columns, rows)


def probes_section(context: ReportContext) -> Section | None:
    """Batch sizes, epochs and batch compositions under the first evaluation settings; None without probes."""
    dependence = batch_dependence(context.probes, per_slot=context.study.spec.has_slot_populations)
    blocks: list[Block] = []
    for setting in list(context.losses_by_setting)[:_MAX_PROBE_SETTINGS]:
        arm, point, estimate = setting.arm, setting.point, setting.estimate or ""
        blocks += pictures_of(
            probe_curve_chart(context.probes, ProbeKind.SIZE, arm, point, estimate),
            probe_curve_chart(context.probes, ProbeKind.EPOCH, arm, point, estimate),
            batch_dependence_chart(dependence, arm, point, estimate),
            label=_setting_label(setting),
        )
    return Section("probes", "Other batch sizes, epochs and batch compositions", blocks) if blocks else None


def _setting_label(setting: EvaluationSetting) -> str:
    return " ".join(part for part in (setting.arm, setting.estimate) if part)
