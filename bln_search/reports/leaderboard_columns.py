"""Columns that all forms of the leaderboard share: terminal, page, LaTeX, Markdown, CSV."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bln_search.core.enums import Split
from bln_search.core.metric_description import find_built_in_metric, label_of_metric
from bln_search.core.records import RowKey
from bln_search.ranking.condition_metrics import MEAN, SUMMARIES, WORST
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd

BatchSizes = Mapping[RowKey, tuple[int, ...]]
"""Mini-batch sizes, in increasing order, of rows that stand for rows which are equal to them by construction."""

SPLITS = (Split.VALIDATION, Split.TEST)
METRICS = ("loss", "accuracy")
GAP = "gap"
"""Name of the generalization gap: the loss of a split minus the loss on the training split."""

SPLIT_METRICS = tuple((split, metric) for split in SPLITS for metric in METRICS)
"""The metric columns in their order."""

TRAIN_METRICS = (*((Split.TRAIN, metric) for metric in METRICS), *((split, GAP) for split in SPLITS))
"""The further metric columns, on clean images, of networks that were evaluated on the training split."""

CROSS_ENTROPY = "mean cross-entropy in nats"
"""The loss of a study, with its unit."""

_CONDITION_LABELS = {MEAN: "mean over conditions", WORST: "worst condition"}


@dataclass(frozen=True)
class MetricColumn:
    """A metric of every row.

    Attributes:
        split: Split of the data.
        metric: `loss`, `accuracy`, `gap`, or the name of a metric of the task.
        condition: Name of a condition, `mean` or `worst` over conditions; empty for clean images.
    """

    split: Split
    metric: str
    condition: str = ""

    @property
    def condition_label(self) -> str:
        """Name of the condition as people read it; empty for clean images."""
        return _CONDITION_LABELS.get(self.condition, self.condition)

    @property
    def is_of_task(self) -> bool:
        """Whether it is a metric of the task."""
        return self.metric not in (*METRICS, GAP)

    @property
    def metric_label(self) -> str:
        """The metric in headings."""
        return label_of_metric(self.metric) if self.is_of_task else self.metric

    @property
    def task_metric_legend(self) -> str:
        """What a metric of the task is; empty for other metrics, and for a metric of a plugin."""
        description = find_built_in_metric(self.metric) if self.is_of_task else None
        return "" if description is None else description.legend

    @property
    def name(self) -> str:
        """`validation loss`, or `fog-3 validation loss` under a condition."""
        words = (self.condition_label, self.split.value, self.metric_label)
        return " ".join(word for word in words if word)

    @property
    def capitalized_name(self) -> str:
        """The name with a capital, unless it begins with a condition."""
        return self.name if self.condition else self.name[0].upper() + self.name[1:]

    @property
    def unit_suffix(self) -> str:
        """Per cent of accuracies, with a space before; empty for losses."""
        return " %" if self.metric == "accuracy" else ""

    @property
    def heading(self) -> str:
        """The name with the unit."""
        return self.name + self.unit_suffix

    def value_of_row(self, row: LeaderboardRow) -> MeanStd | None:
        """The value of a row; None where the row was not measured."""
        return find_metric_value(row, self.split, self.metric, self.condition)


def list_metric_columns(board: Leaderboard, condition_splits: Collection[Split] = SPLITS) -> list[MetricColumn]:
    """The metric columns on clean images, then those under every condition, then mean and worst over conditions.

    Metrics of the task follow the losses and accuracies of their group. Rows that were evaluated on the training split
    have its metrics and the generalization gaps too. There are no accuracies if the score has no correctness.

    Args:
        board: The leaderboard.
        condition_splits: Splits whose metrics under conditions are shown.
    """
    names = (*board.condition_names, *SUMMARIES) if board.condition_names else ()
    of_task = list_task_metric_splits_and_names(board)
    columns = [
        *(MetricColumn(split, metric) for split, metric in (*SPLIT_METRICS, *of_task)),
        *(
            MetricColumn(split, metric)
            for split, metric in (*TRAIN_METRICS, *((Split.TRAIN, metric) for metric in board.task_metric_names))
            if board.has_train_metrics
        ),
        *(
            MetricColumn(split, metric, name)
            for name in names
            for split, metric in (*SPLIT_METRICS, *(of_task if name != WORST else ()))
            if split in condition_splits
        ),
    ]
    return columns if board.has_accuracy else [column for column in columns if column.metric != "accuracy"]


def list_task_metric_splits_and_names(board: Leaderboard) -> list[tuple[Split, str]]:
    """Split and name of the metrics of the task, all of one split after the other."""
    return [(split, metric) for split in SPLITS for metric in board.task_metric_names]


def list_task_metric_legends(board: Leaderboard) -> list[str]:
    """What the metrics of the task are."""
    columns = (MetricColumn(board.ranked_on, metric) for metric in board.task_metric_names)
    return [column.task_metric_legend for column in columns if column.task_metric_legend]


def list_optional_headings_and_attributes(rows: Sequence[LeaderboardRow]) -> list[tuple[str, str]]:
    """Heading and attribute of the columns that only some leaderboards need: several arms, a search space."""
    columns = [("Arm", "arm")] if len({row.arm for row in rows}) > 1 else []
    return columns + ([("Parameters", "parameters")] if any(row.point for row in rows) else [])


def find_metric_value(row: LeaderboardRow, split: Split, metric: str, condition: str = "") -> MeanStd | None:
    """Value of a metric column; None where the row was not measured on that split or under that condition."""
    if metric == GAP:
        return None if condition else row.gaps.get(split)
    by_split = row.metrics
    if condition:
        by_split = (
            {} if row.conditions is None else dict(row.conditions.metrics_by_condition_or_summary.get(condition, {}))
        )
    metrics = by_split.get(split)
    if metrics is None:
        return None
    if metric in METRICS:
        return metrics.accuracy if metric == "accuracy" else metrics.loss
    return metrics.task_metrics.get(metric)


def display_factor_and_decimals(metric: str) -> tuple[float, int]:
    """Factor and number of decimals with which a metric is written: accuracies in per cent."""
    return (100, 2) if metric == "accuracy" else (1, 4)


def format_mean_and_deviation(value: MeanStd, metric: str, plus_minus: str = " ± ") -> str:
    """Mean and standard deviation over seeds; the mean alone for one seed."""
    factor, digits = display_factor_and_decimals(metric)
    mean = format_mean(value, metric)
    return mean if value.deviation is None else f"{mean}{plus_minus}{value.deviation * factor:.{digits}f}"


def format_mean(value: MeanStd, metric: str) -> str:
    """Mean over seeds."""
    factor, digits = display_factor_and_decimals(metric)
    return f"{value.mean * factor:.{digits}f}"
