"""Comparisons of rows and of studies as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.records import RowKey
from bln_search.ranking.comparison import ComparedRow, Comparison
from bln_search.ranking.selection.cross_study import SharedRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import format_difference_and_p_value, format_interval, format_signed_interval
from bln_search.reports.leaderboard_table import (
    recommended_mark_column,
    row_identity_columns,
    verdict_column,
)
from bln_search.reports.metric_columns import CROSS_ENTROPY
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.specs.sections.point_labels import find_distinct_point_digits
from bln_search.specs.sections.space import DIGITS, format_encoded_point

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
        verdict_column([row.verdict for row in rows], _DROP_VERDICT, level=comparison.level),
        *row_identity_columns([row.key for row in rows], _DROP_POPULATION),
        Column(comparison.loss_name, [f"{row.loss:.4f}" for row in rows], CellKind.NUMBER, drop_order=_DROP_LOSS),
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


def _comparison_legend(score: str) -> str:
    return (
        f"loss: {score}, a mean over seeds; difference: loss minus that of the first study; ± is half of a 95 % "
        "confidence interval over seeds (differences: paired by seed if the seeds are the same, otherwise Welch's)."
    )


def recommended_rows_table(
    studies: Sequence[str],
    states: Sequence[str],
    rows: Sequence[RowKey | None],
    losses: Sequence[ConfidenceInterval | None],
    differences: Sequence[ConfidenceInterval | None],
    split: str,
    score: str = CROSS_ENTROPY,
) -> FittedTable:
    """The recommended row of each study; every list has one element per study.

    Args:
        studies: Labels of the studies.
        states: States of the studies.
        rows: The recommended rows; None where there is none.
        losses: Their mean losses.
        differences: Their mean losses minus that of the first study.
        split: Name of the split.
        score: What the loss is, with its unit.
    """
    columns = [
        Column("study", studies),
        Column("state", states),
        Column("recommended row", ["–" if row is None else row_key_label(row) for row in rows]),
        Column(f"{split} loss", [format_interval(loss) for loss in losses], CellKind.NUMBER),
        Column("difference", [_format_difference(difference) for difference in differences], CellKind.NUMBER),
    ]
    return FittedTable(columns, "Recommended rows", notes=[_comparison_legend(score)])


def shared_rows_table(
    studies: Sequence[str], rows: Sequence[SharedRow], split: str, score: str = CROSS_ENTROPY
) -> FittedTable:
    """Rows that two studies or more have, with their losses and the differences to the first study.

    Args:
        studies: Labels of the studies.
        rows: The rows.
        split: Name of the split.
        score: What the loss is, with its unit.
    """
    digits = find_distinct_point_digits(row.key.point for row in rows)
    columns = [Column("row", [row_key_label(row.key, digits) for row in rows])]
    for index, study in enumerate(studies):
        heading = study.replace(" ", "\N{NO-BREAK SPACE}")
        columns.append(
            Column(
                study, heading=heading, kind=CellKind.NUMBER, cells=[format_interval(row.losses[index]) for row in rows]
            )
        )
        if index:
            differences = [_format_difference(row.differences[index]) for row in rows]
            columns.append(Column("difference", differences, CellKind.NUMBER))
    return FittedTable(columns, f"Shared rows, {split} loss", notes=[_comparison_legend(score)])


def row_key_label(key: RowKey, point_digits: int = DIGITS) -> str:
    """Identity of a row in one line: `bln TTFF frozen at 25 lambda=0.5`.

    Args:
        key: Identity of the row.
        point_digits: Significant digits of the numbers of its point.
    """
    estimate = f" {key.estimate}" if key.estimate else ""
    point = f" {format_encoded_point(key.point, point_digits)}" if key.point else ""
    return f"{key.arm} {key.configuration}{estimate} at {key.batch_size}{point}"


def _format_difference(difference: ConfidenceInterval | None) -> str:
    return "–" if difference is None else format_signed_interval(difference)
