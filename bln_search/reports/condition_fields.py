"""Metrics of rows under conditions as values of JSON, and as columns of CSV and Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bln_search.core.enums import Split
from bln_search.ranking.condition_metrics import MEAN, SUMMARIES, WORST, ConditionMetrics, MetricsBySplit
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.reports.leaderboard_columns import METRICS, SPLIT_METRICS, SPLITS
from bln_search.reports.task_metric_fields import (
    flatten_task_metrics,
    task_metric_column_names,
    unflatten_task_metrics,
)

CONDITIONS = "conditions"
"""Key of the metrics under conditions in a row as JSON."""

METRIC_FIELDS = tuple(f"{split}_{metric}_{part}" for split, metric in SPLIT_METRICS for part in ("mean", "deviation"))
"""Names of the loss and accuracy of a row, on clean images or under one condition."""

Fields = dict[str, float | None]


def flatten_metrics(metrics: MetricsBySplit) -> Fields:
    """Metrics by METRIC_FIELDS, None where there is no value; and the metrics of the task, those with a value."""
    flat: Fields = dict.fromkeys(METRIC_FIELDS)
    for split in SPLITS:
        if split not in metrics:
            continue
        of_split = metrics[split]
        for metric, value in zip(METRICS, (of_split.loss, of_split.accuracy), strict=True):
            if value is None:
                continue
            flat[f"{split}_{metric}_mean"] = value.mean
            flat[f"{split}_{metric}_deviation"] = value.deviation
        flat |= flatten_task_metrics(split, of_split)
    return flat


def unflatten_metrics(flat: Mapping[str, Any]) -> dict[Split, SplitMetrics]:
    """Inverse of `flatten_metrics`."""
    metrics = {}
    for split in SPLITS:
        loss, accuracy = (_find_mean_std_in_flat(flat, f"{split}_{metric}") for metric in METRICS)
        if loss is not None:
            metrics[split] = SplitMetrics(loss, accuracy, unflatten_task_metrics(flat, split))
    return metrics


def condition_metrics_to_json_fields(row: LeaderboardRow) -> dict[str, dict[str, Fields]]:
    """The metrics by condition, then `mean` and `worst` over conditions; empty without conditions."""
    if row.conditions is None:
        return {}
    return {
        CONDITIONS: {
            name: flatten_metrics(metrics) for name, metrics in row.conditions.metrics_by_condition_or_summary.items()
        }
    }


def condition_metrics_from_json_fields(flat: Mapping[str, Any]) -> ConditionMetrics | None:
    """Inverse of `condition_metrics_to_json_fields`."""
    columns = {name: unflatten_metrics(fields) for name, fields in flat.get(CONDITIONS, {}).items()}
    if not columns:
        return None
    by_condition = {name: metrics for name, metrics in columns.items() if name not in SUMMARIES}
    return ConditionMetrics(by_condition, columns.get(MEAN, {}), columns.get(WORST, {}))


def condition_column_names(board: Leaderboard) -> tuple[str, ...]:
    """Columns of the metrics under conditions: `fog-3_validation_loss_mean`, and those of `mean` and `worst`."""
    if not board.condition_names:
        return ()
    fields = (*METRIC_FIELDS, *task_metric_column_names(board))
    return tuple(
        f"{name}_{field}"
        for name in (*board.condition_names, *SUMMARIES)
        for field in (fields if name != WORST else METRIC_FIELDS)
    )


def condition_values_by_column(row: LeaderboardRow) -> Fields:
    """The values of a row by `condition_column_names`."""
    by_name = condition_metrics_to_json_fields(row).get(CONDITIONS, {})
    return {f"{name}_{field}": value for name, fields in by_name.items() for field, value in fields.items()}


def _find_mean_std_in_flat(flat: Mapping[str, Any], name: str) -> MeanStd | None:
    mean = flat.get(f"{name}_mean")
    return None if mean is None else MeanStd(mean, flat.get(f"{name}_deviation"))
