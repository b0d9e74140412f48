"""A comparison of rows as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.reports.formatting import format_difference_and_p_value
from bln_search.reports.leaderboard_columns import CROSS_ENTROPY
from bln_search.reports.leaderboard_table import (
    recommended_mark_column,
    row_identity_columns,
    verdict_column,
)
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

_DROP_P_BEST, _DROP_ACCURACY, _DROP_POPULATION, _DROP_P, _DROP_VERDICT, _DROP_LOSS = range(1, 7)


def row_comparison_table(
    comparison: Comparison,
    title: str = "",
    *,
    recommended: RowKey | None = None,
    all_columns: bool = False,
    has_details: bool = False,
    score: str = CROSS_ENTROPY,
) -> FittedTable:
    """Every row with its verdict and its difference to the best row.

    Args:
        comparison: The comparison.
        title: Title of the table.
        recommended: Row to mark.
        all_columns: Print columns that do not fit in further tables.
        has_details: The note on columns that do not fit mentions the option --details.
        score: What the loss is, with its unit.
    """
    rows = comparison.rows
    differences, p_values = zip(*map(format_difference_and_p_value, rows), strict=True)
    columns = [
        recommended_mark_column([row.key == recommended for row in rows]),
        Column("rank", _ranks_of_rows(rows), CellKind.NUMBER, is_key=True),
        verdict_column([row.verdict for row in rows], _DROP_VERDICT),
        *row_identity_columns([row.key for row in rows], _DROP_POPULATION),
        Column(f"{comparison.split} loss", [f"{row.loss:.4f}" for row in rows], CellKind.NUMBER, drop_order=_DROP_LOSS),
        Column(
            "difference to the best (95 %)",
            differences,
            CellKind.NUMBER,
            legend=f"difference to the best: loss ({score}) minus that of the best row, with the 95 % "
            "confidence interval of this pair alone",
        ),
        Column(
            "p (corrected)",
            p_values,
            CellKind.NUMBER,
            legend="p (corrected): p-value of that difference, corrected for all rows",
            drop_order=_DROP_P,
        ),
        _accuracy_column(rows),
        Column(
            "P(best)",
            [f"{row.first_share:.0%}" for row in rows],
            CellKind.NUMBER,
            legend="P(best): probability that the row has the lowest loss",
            drop_order=_DROP_P_BEST,
        ),
    ]
    return FittedTable(
        [column for column in columns if column is not None],
        title,
        row_styles=[None if row.is_worse else "bold" for row in rows] if any(row.is_worse for row in rows) else None,
        all_columns=all_columns,
        has_details=has_details,
    )


def _ranks_of_rows(rows: Sequence[ComparedRow]) -> list[str]:
    """Ranks by mean loss; rows of equal loss share the first of theirs."""
    losses = [row.loss for row in rows]
    return [str(1 + losses.index(loss)) for loss in losses]


def _accuracy_column(rows: Sequence[ComparedRow]) -> Column | None:
    """Accuracies; None for a score without correctness."""
    cells = [f"{100 * row.accuracy:.2f}" for row in rows if row.accuracy is not None]
    return Column("accuracy %", cells, CellKind.NUMBER, drop_order=_DROP_ACCURACY) if cells else None
