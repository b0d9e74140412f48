"""Which columns of a table fit a width: columns are folded, shortened and dropped in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bln_search.reports.tables.columns import Column

_GAP = 2
"""Spaces between two columns."""

_FOLD_WIDTHS = (24, 12)
"""Widths down to which a column of text is folded: before columns are dropped, and where even that does not suffice."""

_Reduction = tuple[int, bool]
"""Index of a column, and whether the column is dropped; otherwise its cells are shortened."""


@dataclass(frozen=True)
class FittedColumns:
    """Columns that fit a width.

    Attributes:
        columns: Columns to show, possibly with shorter cells.
        omitted: Columns that are not shown, or only with shorter cells, as they were.
        omissions: What is not shown, in words.
    """

    columns: Sequence[Column]
    omitted: Sequence[Column]
    omissions: Sequence[str]


def fit_columns(columns: Sequence[Column], width: int) -> FittedColumns:
    """Shorten and drop columns in their order until the rest fits, or nothing more can be dropped."""
    for fold_width in _FOLD_WIDTHS:
        fitting = _reduce_columns(columns, width, fold_width)
        if min_table_width(fitting.columns, fold_width) <= width:
            break
    return fitting


def _reduce_columns(columns: Sequence[Column], width: int, fold_width: int) -> FittedColumns:
    """Apply reductions in their order until the columns fit, then undo those that were not necessary."""

    def fits_width(reductions: Sequence[_Reduction]) -> bool:
        shown = [column for column in _apply_reductions(columns, reductions) if column is not None]
        return min_table_width(shown, fold_width) <= width

    applied: list[_Reduction] = []
    for reduction in _ordered_reductions(columns):
        if fits_width(applied):
            break
        applied.append(reduction)
    for reduction in reversed(applied):
        fewer = [other for other in applied if other != reduction]
        if fits_width(fewer):
            applied = fewer
    shown = _apply_reductions(columns, applied)
    changed = [(before, after) for before, after in zip(columns, shown, strict=True) if after is not before]
    return FittedColumns(
        columns=[column for column in shown if column is not None],
        omitted=[before for before, _ in changed],
        omissions=[_omitted_column_text(before) if after is None else before.short_note for before, after in changed],
    )


def _omitted_column_text(column: Column) -> str:
    """Name of a dropped column, with the value that all rows share."""
    return column.name if column.shared_value is None else f"{column.name} ({column.shared_value})"


def _apply_reductions(columns: Sequence[Column], reductions: Sequence[_Reduction]) -> list[Column | None]:
    """Columns after reductions; None for a dropped one."""
    shown: list[Column | None] = list(columns)
    for index, is_drop in reductions:
        column = columns[index]
        if is_drop:
            shown[index] = None
        elif column.short_cells is not None:
            shown[index] = replace(column, cells=column.short_cells)
    return shown


def _ordered_reductions(columns: Sequence[Column]) -> list[_Reduction]:
    """All reductions in their order: first columns whose rows have the same value are dropped."""
    steps = [(True, column.shorten_order, index, False) for index, column in enumerate(columns) if column.short_cells]
    steps += [
        (column.shared_value is None, column.drop_order, index, True)
        for index, column in enumerate(columns)
        if column.drop_order is not None
    ]
    return [(index, is_drop) for *_, index, is_drop in sorted(steps)]


def min_table_width(columns: Sequence[Column], fold_width: int = _FOLD_WIDTHS[-1]) -> int:
    """Smallest width of a table."""
    return sum(column.min_folded_width(fold_width) for column in columns) + _GAP * (len(columns) - 1)


def compute_folded_column_widths(columns: Sequence[Column], width: int) -> list[int]:
    """Widths of columns that fit: the widest columns of text are folded first."""
    widths = [column.unfolded_width for column in columns]
    excess = sum(widths) + _GAP * (len(columns) - 1) - width
    while excess > 0:
        foldable = [
            index for index, column in enumerate(columns) if widths[index] > column.min_folded_width(_FOLD_WIDTHS[-1])
        ]
        widths[max(foldable, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths
