"""The leaderboard as CSV, JSON and JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.metric_description import METRIC_NAME_PATTERN, RESERVED_METRIC_NAMES
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.condition_metrics import MEAN, SUMMARIES, WORST, ConditionMetrics
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.reports.formatting import confidence_interval_over_seeds
from bln_search.reports.leaderboard_columns import Form, LeaderboardView, ViewedRow, list_row_columns
from bln_search.reports.metric_columns import ACCURACY, GAP, LOSS, SPLITS, MetricColumn, iter_metric_columns
from bln_search.reports.sentences.leaderboard import find_test_ranking_warning
from bln_search.specs.study import StudySpec

Fields = dict[str, float | None]

CONDITIONS = "conditions"
"""Key of the metrics under conditions in a row as JSON."""

_REASON = "reason"
"""The column that CSV and Parquet have after the losses."""

_ROW_COLUMNS = [column for column in list_row_columns(Form.EXPORT) if not column.of_analysis]
_ANALYSIS_COLUMNS = [column for column in list_row_columns(Form.EXPORT) if column.of_analysis]
_TASK_MEANS = {split: re.compile(f"{split}_({METRIC_NAME_PATTERN})_mean") for split in Split}


@lru_cache(maxsize=64)
def _metric_columns(
    task_metric_names: tuple[str, ...], condition_names: tuple[str, ...], *, has_train: bool
) -> tuple[MetricColumn, ...]:
    return tuple(iter_metric_columns(task_metric_names, condition_names, has_train=has_train))


def export_field_types(board: Leaderboard, *, with_analysis: bool) -> dict[str, type]:
    """The columns of CSV and Parquet with the types of their values.

    Args:
        board: The leaderboard.
        with_analysis: Whether there are columns from the analysis of a study.
    """
    types: dict[str, type] = {column.name: column.type for column in _ROW_COLUMNS if column.name != _REASON}
    columns = _metric_columns(board.task_metric_names, board.condition_names, has_train=board.has_train_metrics)
    for position, column in enumerate(columns):
        if position == len(SPLITS) * 2:  # after loss and accuracy of both splits
            types[_REASON] = str
        types |= dict.fromkeys(column.field_names, float)
    types.setdefault(_REASON, str)
    return types | ({column.name: column.type for column in _ANALYSIS_COLUMNS} if with_analysis else {})


def export_row_fields(row: LeaderboardRow, view: LeaderboardView | None = None) -> dict[str, Any]:
    """The values of a row by `export_field_types`; columns without a value may be missing."""
    flat = row_to_json_fields(row, view)
    by_condition = flat.pop(CONDITIONS, {})
    return flat | {
        f"{name}_{field}": value for name, of_name in by_condition.items() for field, value in of_name.items()
    }


def leaderboard_csv(board: Leaderboard, view: LeaderboardView | None = None, code_changes: Sequence[str] = ()) -> str:
    """CSV with a header and one line per row; missing values are empty.

    Args:
        board: The leaderboard.
        view: Adds the columns of the analysis; and `batch_sizes`, with spaces between them, if its rows may stand for
            several mini-batch sizes.
        code_changes: How the code of the results changed; adds `code_changes`, the same in every row, if it did.
    """
    buffer = io.StringIO()
    columns = [*export_field_types(board, with_analysis=view is not None), "ranked_on"]
    if view is not None and view.sizes is not None:
        columns.insert(columns.index("batch_size") + 1, "batch_sizes")
    constant = {"code_changes": " ".join(code_changes)} if code_changes else {}
    writer = csv.DictWriter(buffer, [*columns, *constant], lineterminator="\n")
    writer.writeheader()
    for row in board.rows:
        values = {**export_row_fields(row, view), "ranked_on": board.ranked_on, **constant}
        if view is not None and view.sizes is not None:
            values["batch_sizes"] = " ".join(map(str, view.batch_sizes_of(row.key)))
        writer.writerow(values)
    return buffer.getvalue()


def loss_and_task_metric_fields(spec: StudySpec, board: Leaderboard) -> dict[str, Any]:
    """What the figures of a study are: name and unit of the loss, and the metrics of the task that rows have."""
    names = board.task_metric_names
    return {
        "loss": asdict(spec.loss_description),
        "metrics": [asdict(metric) for metric in spec.metric_descriptions if metric.name in names],
    }


def leaderboard_json(board: Leaderboard, header: dict[str, Any], view: LeaderboardView | None = None) -> str:
    """JSON object of `header`, the split that ranks, the warning, and the rows. view: adds the analysis."""
    content = {
        **header,
        "ranked_on": board.ranked_on,
        "warning": find_test_ranking_warning(board),
        "rows": [row_to_json_fields(row, view) for row in board.rows],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)


def leaderboard_jsonl(board: Leaderboard, header: dict[str, Any], view: LeaderboardView | None = None) -> str:
    """JSON lines: one object per row, of `header`, the split that ranks, and the row. view: adds the analysis."""
    rows = ({**header, "ranked_on": board.ranked_on, **row_to_json_fields(row, view)} for row in board.rows)
    return "".join(f"{json.dumps(row, allow_nan=False, ensure_ascii=False)}\n" for row in rows)


def row_key_fields(key: RowKey) -> dict[str, Any]:
    """The identity of a row as JSON values by the names of its columns."""
    return {
        "arm": key.arm,
        "parameters": key.point or None,
        "configuration": str(key.configuration),
        "population": key.estimate,
        "batch_size": key.batch_size,
    }


def row_to_json_fields(row: LeaderboardRow, view: LeaderboardView | None = None) -> dict[str, Any]:
    """A row as JSON values by the names of its columns; with `view` also those of the analysis.

    A row with metrics of the task has the further keys `validation_NAME_mean`, and so on. A row that was evaluated on
    the training split has its metrics and the generalization gaps, with the ends `low` and `high` of their 95 %
    confidence intervals over seeds. Metrics under conditions are a mapping from the name of the condition, then `mean`
    and `worst` over conditions, to its metrics, under the key `conditions`.
    """
    viewed = ViewedRow(row, (row.batch_size,)) if view is None else view.view_row(row)
    names = tuple(dict.fromkeys(name for metrics in row.metrics.values() for name in metrics.task_metrics))
    conditions = () if row.conditions is None else tuple(row.conditions.by_condition)
    flat: dict[str, Any] = {column.name: column.value_of_row(viewed) for column in _ROW_COLUMNS}
    by_condition: dict[str, Fields] = {}
    for column in _metric_columns(names, conditions, has_train=Split.TRAIN in row.metrics):
        value = column.value_of_row(row)
        if value is None and column.measure.is_of_task:
            continue
        fields = flat if not column.condition else by_condition.setdefault(column.condition, {})
        fields.update(zip(column.fields_on_clean_images, _metric_parts(column, value, row.seeds), strict=True))
    if row.conditions is not None:
        flat[CONDITIONS] = by_condition
    return flat if view is None else flat | {column.name: column.value_of_row(viewed) for column in _ANALYSIS_COLUMNS}


def _metric_parts(column: MetricColumn, value: MeanStd | None, seeds: int) -> Iterable[float | None]:
    """The values of `MetricColumn.field_parts`."""
    parts = (None, None) if value is None else value
    if not column.measure.has_interval_fields:
        return parts
    interval = confidence_interval_over_seeds(value, seeds)
    return (*parts, *((None, None) if interval is None else (interval.low, interval.high)))


def row_from_json_fields(flat: Mapping[str, Any]) -> LeaderboardRow:
    """Inverse of `row_to_json_fields`; the reason of a missing rank is text."""
    gaps = {split: _read_mean(flat, f"{split}_{GAP.name}") for split in SPLITS}
    return LeaderboardRow(
        rank=flat["rank"],
        arm=flat["arm"],
        configuration=InferenceConfiguration(flat["configuration"]),
        estimate=flat["population"] or None,
        batch_size=flat["batch_size"],
        state=EvaluationState(flat["state"]),
        seeds=flat["seeds"],
        metrics=_read_metrics(flat, (*SPLITS, Split.TRAIN)),
        reason=flat["reason"],
        point=flat["parameters"] or "",
        conditions=_read_conditions(flat.get(CONDITIONS, {})),
        gaps={split: gap for split, gap in gaps.items() if gap is not None},
    )


def _read_conditions(fields: Mapping[str, Mapping[str, Any]]) -> ConditionMetrics | None:
    metrics = {name: _read_metrics(flat, SPLITS) for name, flat in fields.items()}
    if not metrics:
        return None
    by_condition = {name: of_name for name, of_name in metrics.items() if name not in SUMMARIES}
    return ConditionMetrics(by_condition, metrics.get(MEAN, {}), metrics.get(WORST, {}))


def _read_metrics(flat: Mapping[str, Any], splits: Iterable[Split]) -> dict[Split, SplitMetrics]:
    metrics = {}
    for split in splits:
        loss, accuracy = (_read_mean(flat, f"{split}_{measure.name}") for measure in (LOSS, ACCURACY))
        if loss is not None:
            metrics[split] = SplitMetrics(loss, accuracy, _read_task_metrics(flat, split))
    return metrics


def _read_task_metrics(flat: Mapping[str, Any], split: Split) -> dict[str, MeanStd]:
    names = (match[1] for field in flat if (match := _TASK_MEANS[split].fullmatch(field)))
    values = {name: _read_mean(flat, f"{split}_{name}") for name in names if name not in RESERVED_METRIC_NAMES}
    return {name: value for name, value in values.items() if value is not None}


def _read_mean(flat: Mapping[str, Any], name: str) -> MeanStd | None:
    mean = flat.get(f"{name}_mean")
    return None if mean is None else MeanStd(mean, flat.get(f"{name}_deviation"))
