"""Section of the leaderboard with confidence intervals."""

from __future__ import annotations

from bln_search.reports.leaderboard_columns import Form, LeaderboardView, list_metric_columns, list_task_metric_legends
from bln_search.reports.leaderboard_table import build_table_columns, metric_columns_with_intervals
from bln_search.reports.page.blocks import Block, Paragraph, Section, Table
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning, format_sentence
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
    blocks += [Paragraph(_ranking_significance_text(context)), _leaderboard_table(context), Paragraph(_LEGEND)]
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
    columns = build_table_columns([view.view_row(row) for row in board.rows], Form.REPORT, metrics, capitalized=True)
    styles = ["dim" if row.rank is None else "bold" if row.key in not_worse else None for row in board.rows]
    more = f"All of them: bln-search leaderboard {context.study.name} --format csv"
    return Table(FittedTable(columns, "Configurations, best first", row_styles=styles), more)
