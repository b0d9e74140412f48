"""Section of the arms of adaptation over streams."""

from __future__ import annotations

from bln_search.reports.charts.streams import MEASURES, stream_chart
from bln_search.reports.page.blocks import Block, Paragraph, Section, Table, figures_of_existing_charts
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.stream_table import stream_sentences, stream_table


def streams_section(context: StudyReportContext) -> Section | None:
    """Sentences, table and charts; None without ranked arms."""
    streams, spec = None if context.analysis is None else context.analysis.streams, context.study.spec.stream
    if streams is None or spec is None or not streams.rows:
        return None
    blocks: list[Block] = [Paragraph(" ".join(stream_sentences(streams, spec)))]
    blocks.append(Table(stream_table(streams, "Arms of adaptation, the lowest error first")))
    blocks += figures_of_existing_charts(*(stream_chart(streams, measure) for measure in MEASURES.values()))
    return Section("streams", "Streams", blocks)
