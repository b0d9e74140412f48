"""The rows of a ranked table as records, and the columns of the user's metrics."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from bln_search.api.ranked.result_table import Record
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.api.ranked.rows import RankedRows
from bln_search.core.enums import Split
from bln_search.ranking.comparison import Comparison
from bln_search.reports.export import row_to_json_fields
from bln_search.reports.metric_columns import SPLIT_METRICS
from bln_search.reports.tables.columns import CellKind, Column
from bln_search.reports.tables.fitted_table import FittedTable

_OF_A_STUDY = ("arm", "parameters", "seeds")
"""Columns that are the same in all rows of one network."""

_DROP_TEST_METRIC = 2


def build_ranked_records(table: RankedRows, comparison: Comparison | None) -> list[Record]:
    """One record for each row, in their order.

    Columns have the names of the exports of a study. `verdict` is what is known beside the best row,
    `batch_sizes` all mini-batch sizes at which the row is the same, and `batch_size` the smallest of them.
    """
    splits = {split for row in table.board.rows for split in row.metrics}
    verdicts = {} if comparison is None else {row.key: row.verdict.value for row in comparison.rows}
    metrics = [
        f"{split}_{metric}_mean"
        for split, metric in SPLIT_METRICS
        if split in splits and (table.has_accuracy or metric == "loss")
    ]
    records = []
    for ranked in table:
        flat = {name: value for name, value in row_to_json_fields(ranked.row).items() if name not in _OF_A_STUDY}
        identity = {
            name: _enum_to_value(value) for name, value in flat.items() if not name.endswith(("_mean", "_deviation"))
        }
        reason = identity.pop("reason")
        records.append(
            {
                **identity,
                "batch_sizes": " ".join(map(str, ranked.batch_sizes)),
                "independent": ranked.is_independent,
                "verdict": verdicts.get(ranked.row.key),
                **{name: flat[name] for name in metrics},
                **_user_metric_values(ranked, table.higher_is_better, splits),
                "reason": reason,
            }
        )
    return records


def _enum_to_value(value: Any) -> str | int | float | None:
    return str(value) if isinstance(value, str) else value


def _user_metric_values(
    row: RankedConfiguration, names: Iterable[str], splits: Collection[Split]
) -> dict[str, float | None]:
    """The values of a row by column; None for a value that is no finite number, as JSON has none."""
    values = {
        f"{split}_{name}": row.metrics.get(split, {}).get(name) for name in names for split in Split if split in splits
    }
    return {name: value if value is not None and math.isfinite(value) else None for name, value in values.items()}


def insert_user_metric_columns(printed: FittedTable, table: RankedRows) -> FittedTable:
    """The printed table with one column for each metric of the user and split, before its column of states."""
    splits = {key.split for key in table.metric_values}
    rows = list(table)
    columns = [
        _build_metric_column(rows, name, split, higher_is_better=higher)
        for name, higher in table.higher_is_better.items()
        for split in Split
        if split in splits
    ]
    names = [column.name for column in printed.columns]
    start = names.index("state") if "state" in names else len(names)
    return replace(printed, columns=[*printed.columns[:start], *columns, *printed.columns[start:]])


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
