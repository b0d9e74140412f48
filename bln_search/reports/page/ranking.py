"""Sections of the leaderboard and of per-layer configurations."""

from __future__ import annotations

from dataclasses import replace

from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.charts.per_layer import layer_switch_effects_heat_map
from bln_search.reports.formatting import recommended_row_key
from bln_search.reports.leaderboard_columns import Form, LeaderboardView
from bln_search.reports.leaderboard_table import build_table_columns, metric_columns_with_intervals
from bln_search.reports.metric_columns import list_metric_columns, list_task_metric_legends
from bln_search.reports.page.blocks import Block, ChartFigure, Paragraph, Section, Table
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.per_layer_tables import (
    best_configurations_table,
    layer_switch_effects_table,
    selected_configurations_by_network_table,
)
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning, format_sentence
from bln_search.reports.sentences.per_layer import arm_and_point_label, excluded_option_sentences, per_layer_sentences
from bln_search.reports.tables.fitted_table import FittedTable

_LEGEND = (
    "T: from the population, F: from the mini-batch, M: from the memory, -: a statistic that the method does not have. "
    "E_B and Std_B are mean and deviation over the mini-batch, E_F and Std_F over the features of an example."
)


def leaderboard_section(context: StudyReportContext) -> Section:
    """The leaderboard, preceded by its warning and the significance of the first ranks."""
    board = context.leaderboard
    blocks: list[Block] = [Paragraph(text, warning=True) for text in context.study.code_changes]
    warning = find_test_ranking_warning(board)
    if warning:
        blocks.append(Paragraph(format_sentence(warning), warning=True))
    if not board.rows:
        blocks.append(Paragraph("There are no results yet."))
        return Section("leaderboard", "Leaderboard", blocks)
    mark = "" if recommended_row_key(context.analysis) is None else "* is the recommended row. "
    blocks += [Paragraph(_ranking_significance_text(context)), _leaderboard_table(context), Paragraph(mark + _LEGEND)]
    metrics = list_task_metric_legends(board)
    blocks += [Paragraph(f"{'. '.join(metrics)}. Rows are never ranked by these metrics.")] if metrics else []
    return Section("leaderboard", "Leaderboard", blocks)


def _ranking_significance_text(context: StudyReportContext) -> str:
    text = f"{len(context.leaderboard.rows):,} rows, ranked by mean {context.ranking_split} loss over seeds. "
    if context.leaderboard.best_row is None:
        text += "No row has all its seeds: there are no ranks. "
    elif context.analysis is not None and context.analysis.comparison is not None:
        text += "The next section says which rows are worse than the best one. "
    elif len(context.study.spec.all_seeds) == 1:
        text += "With one seed there are no confidence intervals over seeds. "
    return text + "± is half the 95 % confidence interval of the mean over seeds."


def _leaderboard_table(context: StudyReportContext) -> Table:
    board, not_worse = context.leaderboard, context.keys_of_rows_not_worse
    view = LeaderboardView(board)
    metrics = metric_columns_with_intervals(board.rows, list_metric_columns(board, condition_splits=(board.ranked_on,)))
    rank, *others = build_table_columns(
        [view.view_row(row) for row in board.rows], Form.REPORT, metrics, capitalized=True
    )
    recommended = recommended_row_key(context.analysis)
    ranks = [f"{cell}*" if row.key == recommended else cell for cell, row in zip(rank.cells, board.rows, strict=True)]
    styles = ["dim" if row.rank is None else "bold" if row.key in not_worse else None for row in board.rows]
    more = f"All of them: bln-search leaderboard {context.study.name} --format csv"
    return Table(
        FittedTable([replace(rank, cells=ranks), *others], "Configurations, best first", row_styles=styles), more
    )


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
