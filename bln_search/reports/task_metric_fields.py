"""Metrics of the task of rows as values of JSON, and as columns of CSV and Parquet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bln_search.core.enums import Split
from bln_search.core.metric_description import METRIC_NAME_PATTERN, RESERVED_METRIC_NAMES
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.reports.leaderboard_columns import list_task_metric_splits_and_names

_MEAN_FIELDS = {split: re.compile(f"{split}_({METRIC_NAME_PATTERN})_mean") for split in Split}


def task_metric_column_names(board: Leaderboard) -> tuple[str, ...]:
    """The columns of a board: `validation_r2_mean` and `validation_r2_deviation`, then those of the test split."""
    return tuple(
        f"{split}_{metric}_{part}" for split, metric in list_task_metric_splits_and_names(board) for part in _PARTS
    )


def train_task_metric_column_names(board: Leaderboard) -> tuple[str, ...]:
    """The columns of the training split; none unless it was evaluated."""
    names = board.task_metric_names if board.has_train_metrics else ()
    return tuple(f"{Split.TRAIN}_{metric}_{part}" for metric in names for part in _PARTS)


def flatten_task_metrics(split: Split, metrics: SplitMetrics) -> dict[str, float | None]:
    """The metrics of a split that have a value."""
    return {
        f"{split}_{name}_{part}": number
        for name, value in metrics.task_metrics.items()
        for part, number in zip(_PARTS, value, strict=True)
    }


def unflatten_task_metrics(flat: Mapping[str, Any], split: Split) -> dict[str, MeanStd]:
    """Inverse of `flatten_task_metrics`."""
    matches = {match[1]: mean for field, mean in flat.items() if (match := _MEAN_FIELDS[split].fullmatch(field))}
    return {
        name: MeanStd(mean, flat.get(f"{split}_{name}_deviation"))
        for name, mean in matches.items()
        if mean is not None and name not in RESERVED_METRIC_NAMES
    }


_PARTS = ("mean", "deviation")
