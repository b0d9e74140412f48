"""Metrics of a ranked table: order of rows, columns of the printed table and of records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bln_search.api.ranked.row import RankedConfiguration
from bln_search.core.enums import Split
from bln_search.reports.terminal.columns import CellKind, Column
from bln_search.reports.terminal.fitted_table import FittedTable

_DROP_TEST_METRIC = 2


def sort_rows_by_metric(
    rows: Iterable[RankedConfiguration], name: str, directions: Mapping[str, bool], split: Split
) -> list[RankedConfiguration]:
    """The rows from the best to the worst value; equal values keep their order, rows without a number are last.

    Raises:
        KeyError: There is no metric of this name.
    """
    if name not in directions:
        names = ", ".join(directions) or "none: evaluate_configurations takes metrics="
        raise KeyError(f"there is no metric {name!r}: there are {names}")
    sign = -1 if directions[name] else 1

    def sort_key_of_row(row: RankedConfiguration) -> float:
        value = row.metrics.get(split, {}).get(name, math.nan)
        return math.inf if math.isnan(value) else sign * value

    ordered = sorted(rows, key=sort_key_of_row)
    return sorted(ordered, key=lambda row: math.isnan(row.metrics.get(split, {}).get(name, math.nan)))


def insert_user_metric_columns(
    table: FittedTable, rows: Sequence[RankedConfiguration], directions: Mapping[str, bool], splits: Iterable[Split]
) -> FittedTable:
    """The table with one column for each metric and split, before its column of states.

    Args:
        table: The table.
        rows: Its rows.
        directions: For each metric, by name, whether a higher value is better.
        splits: Splits with values.
    """
    splits = list(splits)
    columns = [
        _build_metric_column(rows, name, split, higher_is_better=higher)
        for name, higher in directions.items()
        for split in Split
        if split in splits
    ]
    start = next((index for index, column in enumerate(table.columns) if column.name == "state"), len(table.columns))
    return replace(table, columns=[*table.columns[:start], *columns, *table.columns[start:]])


def user_metric_values_by_column(
    row: RankedConfiguration, names: Iterable[str], splits: Iterable[Split]
) -> dict[str, str | int | float | bool | None]:
    """The values of a row by column; None for a value that is no finite number, as JSON has none."""
    splits = list(splits)
    values = {
        f"{split}_{name}": row.metrics.get(split, {}).get(name) for name in names for split in Split if split in splits
    }
    return {name: value if value is not None and math.isfinite(value) else None for name, value in values.items()}


def _build_metric_column(
    rows: Sequence[RankedConfiguration], name: str, split: Split, *, higher_is_better: bool
) -> Column:
    values = [row.metrics.get(split, {}).get(name) for row in rows]
    return Column(
        f"{split} {name}",
        ["–" if value is None else f"{value:.4f}" for value in values],
        CellKind.NUMBER,
        legend=f"{name}: {'higher' if higher_is_better else 'lower'} is better",
        drop_order=_DROP_TEST_METRIC if split is Split.TEST else None,
    )
