"""What the results say: which rows can be told apart, which one to use, how networks do beside the leaderboard."""

from __future__ import annotations

from collections.abc import Iterable

from bln_search.core.enums import ProbeKind
from bln_search.ranking.comparison import Comparison
from bln_search.ranking.grouping import Condition
from bln_search.ranking.probe_results import company
from bln_search.reports.charts import Chart
from bln_search.reports.charts.comparison import critical_difference_chart, differences_chart, row_labels
from bln_search.reports.charts.probes import axis_chart, company_chart, latency_chart
from bln_search.reports.charts.variance import variance_chart
from bln_search.reports.comparison import analysis_lines, difference_cells
from bln_search.reports.page.blocks import Block, Column, Kind, Paragraph, Picture, Row, Section, Table
from bln_search.reports.page.context import Material

_MOST_CONDITIONS = 4
"""For which batch sizes, epochs and company are drawn."""


def meaning(material: Material) -> Section | None:
    """Sentences, the compared rows, and their charts; None where nothing was worked out."""
    analysis = material.analysis
    if analysis is None:
        return None
    blocks: list[Block] = [Paragraph(line) for line in analysis_lines(analysis)]
    if analysis.comparison is not None:
        blocks.append(_table(analysis.comparison))
        blocks += _drawn(differences_chart(analysis.comparison), critical_difference_chart(analysis.comparison))
    for arm, point in dict.fromkeys((one.arm, one.point) for one in analysis.shares):
        blocks += _drawn(variance_chart(analysis.shares, arm, point), about=arm)
    blocks += _drawn(latency_chart(analysis.latencies, analysis.device, analysis.threads))
    return Section("meaning", "What the results say", blocks) if blocks else None


def _table(found: Comparison) -> Table:
    columns = [Column("Row"), Column("Group"), Column(f"{found.split.value.capitalize()} loss", Kind.NUMBER)]
    columns += [Column("Less the best (95 %)", Kind.NUMBER), Column("p (Holm)", Kind.NUMBER)]
    columns += [Column("Accuracy %", Kind.NUMBER), Column("Ranks", Kind.NUMBER), Column("First", Kind.NUMBER)]
    rows = []
    for place, (row, label) in enumerate(zip(found.rows, row_labels(found.rows), strict=True)):
        cells = [label, row.group, f"{row.loss:.4f}", *difference_cells(found.pair(0, place))]
        cells += [f"{100 * row.accuracy:.2f}", f"{row.lowest_rank}–{row.highest_rank}", f"{row.first_share:.0%}"]
        rows.append(Row(cells, "first" if row.shares_first else ""))
    return Table("Rows compared with one another: two that share a letter cannot be told apart", columns, rows)


def probes(material: Material) -> Section | None:
    """Batch sizes, epochs and company, under the first conditions; None where nothing was probed."""
    found = company(material.probed)
    blocks: list[Block] = []
    for one in list(material.conditions)[:_MOST_CONDITIONS]:
        estimate = one.estimate or ""
        blocks += _drawn(
            axis_chart(material.probed, ProbeKind.SIZE, one.arm, one.point, estimate),
            axis_chart(material.probed, ProbeKind.EPOCH, one.arm, one.point, estimate),
            company_chart(found, one.arm, one.point, estimate),
            about=_about(one),
        )
    return Section("probes", "Other batch sizes, epochs and company", blocks) if blocks else None


def _about(condition: Condition) -> str:
    return " ".join(part for part in (condition.arm, condition.estimate) if part)


def _drawn(*charts: Chart | None, about: str = "") -> Iterable[Picture]:
    return [Picture(one, about) for one in charts if one is not None]
