"""Studies side by side as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bln_search.core.records import RowKey
from bln_search.ranking.selection.cross_study import SharedRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import format_interval, format_signed_interval
from bln_search.reports.leaderboard_columns import CROSS_ENTROPY
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable
from bln_search.specs.sections.point_labels import find_distinct_point_digits
from bln_search.specs.sections.space import DIGITS, format_encoded_point


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
