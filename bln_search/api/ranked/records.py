"""The ranked table of a network as records: for pandas, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Sequence
from importlib import import_module
from typing import Any

from bln_search.api.ranked.metric_columns import user_metric_values_by_column
from bln_search.api.ranked.row import RankedConfiguration
from bln_search.core.enums import Split
from bln_search.core.errors import MissingPackageError
from bln_search.ranking.comparison import Comparison
from bln_search.reports.export import row_to_json_fields
from bln_search.reports.leaderboard_columns import SPLIT_METRICS

Record = dict[str, str | int | float | bool | None]

_OF_A_STUDY = ("arm", "parameters", "seeds")
"""Columns that are the same in all rows of one network."""


def build_ranked_records(
    rows: Iterable[RankedConfiguration],
    comparison: Comparison | None,
    *,
    splits: Collection[Split],
    accuracy: bool,
    metric_names: Collection[str] = (),
) -> list[Record]:
    """One record for each row, in their order.

    Columns have the names of the exports of a study. `verdict` is what is known beside the best row,
    `batch_sizes` all mini-batch sizes at which the row is the same, and `batch_size` the smallest of them.

    Args:
        rows: The rows.
        comparison: Comparison of the rows; None where there is none.
        splits: Splits with results.
        accuracy: Whether there are accuracies.
        metric_names: Names of the metrics of the user.
    """
    verdicts = {} if comparison is None else {row.key: row.verdict.value for row in comparison.rows}
    metrics = [
        f"{split}_{metric}_mean"
        for split, metric in SPLIT_METRICS
        if split in splits and (accuracy or metric == "loss")
    ]
    records = []
    for ranked in rows:
        flat = {name: value for name, value in row_to_json_fields(ranked.row).items() if name not in _OF_A_STUDY}
        identity = {
            name: _enum_to_value(value) for name, value in flat.items() if not name.endswith(("_mean", "_deviation"))
        }
        reason = identity.pop("reason")
        identity["batch_sizes"] = " ".join(map(str, ranked.batch_sizes))
        verdict = verdicts.get(ranked.row.key)
        measured: Record = {name: flat[name] for name in metrics} | user_metric_values_by_column(
            ranked, metric_names, splits
        )
        records.append(
            identity | {"independent": ranked.is_independent, "verdict": verdict} | measured | {"reason": reason}
        )
    return records


def records_to_csv(records: Sequence[Record]) -> str:
    """CSV with a header and one line per record; missing values are empty."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def records_to_json(records: Sequence[Record]) -> str:
    """A JSON array of objects."""
    return json.dumps(records, indent=1, allow_nan=False, ensure_ascii=False)


def records_to_data_frame(records: Sequence[Record]) -> Any:
    """A `pandas.DataFrame`. Raises MissingPackageError if pandas is not installed."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name, extra=None) from None
    return pandas.DataFrame.from_records(records)


def _enum_to_value(value: Any) -> str | int | float | None:
    """The value of a member of an enumeration; any other value as it is."""
    return str(value) if isinstance(value, str) else value
