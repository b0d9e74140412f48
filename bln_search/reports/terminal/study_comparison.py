"""Studies side by side as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bln_search.core.records import RowKey
from bln_search.ranking.selection.cross_study import SharedRow
from bln_search.ranking.statistics.intervals import ConfidenceInterval
from bln_search.reports.formatting import rounded, signed
from bln_search.specs.space import format_point_json


def recommended_table(
    studies: Sequence[str],
    states: Sequence[str],
    rows: Sequence[RowKey | None],
    losses: Sequence[ConfidenceInterval | None],
    differences: Sequence[ConfidenceInterval | None],
    split: str,
) -> Table:
    """The recommended row of each study; every argument but the last has one element per study.

    Args:
        studies: Labels of the studies.
        states: States of the studies.
        rows: The recommended rows; None where there is none.
        losses: Their mean losses.
        differences: Their mean losses minus that of the first study.
        split: Name of the split.
    """
    table = Table(title="Recommended rows", title_justify="left", header_style="bold")
    for heading in ("study", "state", "recommended row"):
        table.add_column(heading)
    for heading in (f"{split} loss", "less the first (95 %)"):
        table.add_column(heading, justify="right")
    for study, state, row, loss, difference in zip(studies, states, rows, losses, differences, strict=True):
        table.add_row(study, state, "–" if row is None else row_label(row), rounded(loss), _difference(difference))
    return table


def shared_rows_table(studies: Sequence[str], rows: Sequence[SharedRow], split: str) -> Table:
    """Rows that two studies or more have, with their losses and the differences to the first study.

    Args:
        studies: Labels of the studies.
        rows: The rows.
        split: Name of the split.
    """
    table = Table(title=f"Shared rows, {split} loss", title_justify="left", header_style="bold")
    table.add_column("row")
    for position, study in enumerate(studies):
        table.add_column(Text(study), justify="right")
        if position:
            table.add_column("less the first (95 %)", justify="right")
    for row in rows:
        cells = [rounded(row.losses[0])]
        for loss, difference in zip(row.losses[1:], row.differences[1:], strict=True):
            cells += [rounded(loss), _difference(difference)]
        table.add_row(row_label(row.key), *cells)
    return table


def row_label(key: RowKey) -> str:
    """Identity of a row in one line: `bln TTFF frozen at 25 lambda=0.5`."""
    estimate = f" {key.estimate}" if key.estimate else ""
    point = f" {format_point_json(key.point)}" if key.point else ""
    return f"{key.arm} {key.configuration}{estimate} at {key.batch_size}{point}"


def _difference(difference: ConfidenceInterval | None) -> str:
    return "–" if difference is None else signed(difference)
