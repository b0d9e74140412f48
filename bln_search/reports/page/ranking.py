"""Section of the leaderboard with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import common_decimals, confidence_interval_over_seeds, format_metric_interval
from bln_search.reports.leaderboard_columns import (
    MetricColumn,
    list_metric_columns,
    list_optional_headings_and_attributes,
    list_task_metric_legends,
)
from bln_search.reports.page.blocks import (
    SWITCHES,
    Block,
    Column,
    ColumnKind,
    Paragraph,
    Row,
    Section,
    Table,
    source_letter_cells,
)
from bln_search.reports.page.context import StudyReportContext
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning, find_unranked_reason, format_sentence

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
    identity = list_optional_headings_and_attributes(board.rows)
    columns = [
        Column("Rank", ColumnKind.NUMBER),
        *SWITCHES,
        *(Column(label) for label, _ in identity),
        Column("Population"),
    ]
    columns += [Column("Batch", ColumnKind.NUMBER)]
    metrics = list_metric_columns(board, condition_splits=(board.ranked_on,))
    columns += [Column(f"{column.capitalized_name}{column.unit_suffix}", ColumnKind.NUMBER) for column in metrics]
    columns += [Column("Seeds", ColumnKind.NUMBER), Column("State")]
    attributes = [attribute for _, attribute in identity]
    decimals = [
        common_decimals((_metric_interval(row, column) for row in board.rows), column.metric) for column in metrics
    ]
    rows = [
        _leaderboard_table_row(
            row,
            attributes,
            [
                format_metric_interval(_metric_interval(row, column), column.metric, places)
                for column, places in zip(metrics, decimals, strict=True)
            ],
            is_first=row.key in not_worse,
        )
        for row in board.rows
    ]
    more = f"All of them: bln-search leaderboard {context.study.name} --format csv"
    return Table("Configurations, best first", columns, rows, more=more)


def _leaderboard_table_row(
    row: LeaderboardRow, attributes: list[str], metrics: Sequence[str], *, is_first: bool
) -> Row:
    rank = "–" if row.rank is None else str(row.rank)
    reason = find_unranked_reason(row)
    cells = [rank, *source_letter_cells(row.configuration), *(str(getattr(row, attribute)) for attribute in attributes)]
    cells += [row.estimate or "–", str(row.batch_size)]
    cells += [*metrics, str(row.seeds), f"{row.state.value}: {reason}" if reason else row.state.value]
    style = "unranked" if row.rank is None else "first" if is_first else ""
    return Row(cells, style)


def _metric_interval(row: LeaderboardRow, column: MetricColumn) -> ConfidenceInterval | None:
    return confidence_interval_over_seeds(column.value_of_row(row), row.seeds)
