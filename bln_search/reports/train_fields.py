"""Metrics on the training split and generalization gaps as values of JSON, and as columns of CSV and Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bln_search.core.enums import Split
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.reports.formatting import confidence_interval_over_seeds
from bln_search.reports.leaderboard_columns import GAP, METRICS, SPLITS, find_metric_value
from bln_search.reports.task_metric_fields import (
    flatten_task_metrics,
    train_task_metric_column_names,
    unflatten_task_metrics,
)

Fields = dict[str, float | None]

TRAIN_FIELDS = (
    *(f"{Split.TRAIN}_{metric}_{part}" for metric in METRICS for part in ("mean", "deviation")),
    *(f"{split}_{GAP}_{part}" for split in SPLITS for part in ("mean", "deviation", "low", "high")),
)
"""Names of the fields. `low` and `high` are the ends of the 95 % confidence interval of the gap over seeds."""


def train_column_names(board: Leaderboard) -> tuple[str, ...]:
    """The fields that are columns of a board: none unless it has metrics on the training split."""
    return (*TRAIN_FIELDS, *train_task_metric_column_names(board)) if board.has_train_metrics else ()


def flatten_train_metrics(row: LeaderboardRow) -> Fields:
    """The values of a row by TRAIN_FIELDS, and its metrics of the task; empty without the training split."""
    if Split.TRAIN not in row.metrics:
        return {}
    flat: Fields = dict.fromkeys(TRAIN_FIELDS)
    for metric in METRICS:
        flat |= _flatten_mean_and_deviation(f"{Split.TRAIN}_{metric}", find_metric_value(row, Split.TRAIN, metric))
    flat |= flatten_task_metrics(Split.TRAIN, row.metrics[Split.TRAIN])
    for split, gap in row.gaps.items():
        interval = confidence_interval_over_seeds(gap, row.seeds)
        flat |= _flatten_mean_and_deviation(f"{split}_{GAP}", gap)
        flat |= {
            f"{split}_{GAP}_low": None if interval is None else interval.low,
            f"{split}_{GAP}_high": None if interval is None else interval.high,
        }
    return flat


def unflatten_train_metrics(flat: Mapping[str, Any]) -> dict[Split, SplitMetrics]:
    """The metrics on the training split; empty without them."""
    loss, accuracy = (_find_mean_std_in_flat(flat, f"{Split.TRAIN}_{metric}") for metric in METRICS)
    if loss is None:
        return {}
    return {Split.TRAIN: SplitMetrics(loss, accuracy, unflatten_task_metrics(flat, Split.TRAIN))}


def unflatten_generalization_gaps(flat: Mapping[str, Any]) -> dict[Split, MeanStd]:
    """The generalization gaps by split."""
    gaps = {split: _find_mean_std_in_flat(flat, f"{split}_{GAP}") for split in SPLITS}
    return {split: gap for split, gap in gaps.items() if gap is not None}


def _flatten_mean_and_deviation(name: str, value: MeanStd | None) -> Fields:
    return {} if value is None else {f"{name}_mean": value.mean, f"{name}_deviation": value.deviation}


def _find_mean_std_in_flat(flat: Mapping[str, Any], name: str) -> MeanStd | None:
    mean = flat.get(f"{name}_mean")
    return None if mean is None else MeanStd(mean, flat.get(f"{name}_deviation"))
