"""The metrics of rows, columns of every form of the leaderboard. A new one is a `Measure` in `_METRIC_GROUPS`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from bln_search.core.enums import Split
from bln_search.core.task_plugin import find_metric
from bln_search.ranking.condition_metrics import MEAN, SUMMARIES, WORST
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd, SplitMetrics

SPLITS = (Split.VALIDATION, Split.TEST)
CROSS_ENTROPY = "mean cross-entropy in nats"
"""The loss of a study, with its unit."""


@dataclass(frozen=True)
class Measure:
    """A metric that rows have on a split.

    Attributes:
        name: Name in columns: `loss`, `accuracy`, `gap`, or that of a metric of the task.
        value: Value of a row on a split, on clean images or under a condition; None where it was not measured.
        label: Name in headings.
        legend: What it is; empty where the name suffices.
        term: Anchor of its term in the glossary; empty without one.
        is_of_task: Whether it is a metric of the task.
        has_interval_fields: Whether exports have the ends of its 95 % confidence interval over seeds.
        drop_order: Order in which a narrow terminal drops it: on a split that does not rank the rows, and on the one
            that does. It loses its deviation over seeds at `shorten_order`.
        shorten_order: See `drop_order`.
    """

    name: str
    value: Callable[[LeaderboardRow, Split, str], MeanStd | None]
    label: str
    legend: str = ""
    term: str = ""
    is_of_task: bool = False
    has_interval_fields: bool = False
    drop_order: tuple[int, int] = (2, 4)
    shorten_order: tuple[int, int] = (1, 3)


def _find_split_metrics(row: LeaderboardRow, split: Split, condition: str) -> SplitMetrics | None:
    if not condition:
        return row.metrics.get(split)
    conditions = row.conditions
    return None if conditions is None else conditions.metrics_by_condition_or_summary.get(condition, {}).get(split)


def _loss(row: LeaderboardRow, split: Split, condition: str) -> MeanStd | None:
    metrics = _find_split_metrics(row, split, condition)
    return None if metrics is None else metrics.loss


def _accuracy(row: LeaderboardRow, split: Split, condition: str) -> MeanStd | None:
    metrics = _find_split_metrics(row, split, condition)
    return None if metrics is None else metrics.accuracy


def _gap(row: LeaderboardRow, split: Split, condition: str) -> MeanStd | None:
    return None if condition else row.gaps.get(split)


LOSS = Measure("loss", _loss, "loss", term="split", drop_order=(3, 9), shorten_order=(1, 9))
ACCURACY = Measure("accuracy", _accuracy, "accuracy", drop_order=(5, 8), shorten_order=(2, 4))
GAP = Measure(
    "gap",
    _gap,
    "gap",
    legend="gap: loss minus train loss",
    term="generalization-gap",
    has_interval_fields=True,
    drop_order=(-2, -2),
    shorten_order=(-3, -3),
)
"""The generalization gap: the loss of a split minus the loss on the training split."""

_TRAIN_ORDERS = {LOSS.name: -4}
"""Orders of `Measure.drop_order` for metrics on the training split, which are dropped first; others at -6."""


@lru_cache(maxsize=256)
def task_measure(name: str) -> Measure:
    """The measure of a metric of the task; that of a package that is not installed has no legend."""
    description = find_metric(name)

    def value(row: LeaderboardRow, split: Split, condition: str) -> MeanStd | None:
        metrics = _find_split_metrics(row, split, condition)
        return None if metrics is None else metrics.task_metrics.get(name)

    label, legend = (name.replace("_", " "), "") if description is None else (description.label, description.legend)
    return Measure(name, value, label, legend, term="task-metric", is_of_task=True)


OF_TASK = "of the task"
_METRIC_GROUPS: tuple[tuple[tuple[Split, ...], tuple[Measure, ...] | str], ...] = (
    (SPLITS, (LOSS, ACCURACY)),
    (SPLITS, OF_TASK),
    ((Split.TRAIN,), (LOSS, ACCURACY)),
    (SPLITS, (GAP,)),
    ((Split.TRAIN,), OF_TASK),
)
"""Metrics in the order of their columns: splits, and the measures on each of them."""

METRICS = (LOSS.name, ACCURACY.name)
SPLIT_METRICS = tuple((split, metric) for split in SPLITS for metric in METRICS)
BUILT_IN_MEASURES = {measure.name: measure for measure in (LOSS, ACCURACY, GAP)}
_CONDITION_LABELS = {MEAN: "mean over conditions", WORST: "worst condition"}


def measure_of(name: str) -> Measure:
    """The measure of this name."""
    return BUILT_IN_MEASURES.get(name) or task_measure(name)


def find_metric_value(row: LeaderboardRow, split: Split, metric: str, condition: str = "") -> MeanStd | None:
    """Value of a metric; None where the row was not measured on that split or under that condition."""
    return measure_of(metric).value(row, split, condition)


@dataclass(frozen=True)
class MetricColumn:
    """A metric of every row.

    Attributes:
        split: Split of the data.
        measure: What was measured.
        condition: Name of a condition, `mean` or `worst` over conditions; empty for clean images.
    """

    split: Split
    measure: Measure
    condition: str = ""

    @property
    def needs_train_split(self) -> bool:
        """Whether only networks that were evaluated on the training split have it."""
        return self.split is Split.TRAIN or self.measure is GAP

    @property
    def sort_key(self) -> str:
        """Its name in links and in `sort` of REST: `validation_loss`, `test_loss:fog-3`."""
        return f"{self.split}_{self.measure.name}" + (f":{self.condition}" if self.condition else "")

    @property
    def condition_label(self) -> str:
        """Name of the condition as people read it; empty for clean images."""
        return _CONDITION_LABELS.get(self.condition, self.condition)

    @property
    def name(self) -> str:
        """`validation loss`, or `fog-3 validation loss` under a condition."""
        words = (self.condition_label, self.split.value, self.measure.label)
        return " ".join(word for word in words if word)

    @property
    def capitalized_name(self) -> str:
        """The name with a capital, unless it begins with a condition."""
        return self.name if self.condition else capitalize(self.name)

    @property
    def unit_suffix(self) -> str:
        """Per cent of accuracies, with a space before; empty for losses."""
        return " %" if self.measure is ACCURACY else ""

    @property
    def heading(self) -> str:
        """The name with the unit."""
        return self.name + self.unit_suffix

    @property
    def field_parts(self) -> tuple[str, ...]:
        """What exports have of it."""
        return ("mean", "deviation", "low", "high") if self.measure.has_interval_fields else ("mean", "deviation")

    @cached_property
    def fields_on_clean_images(self) -> tuple[str, ...]:
        """Names of its values in JSON, where those of a condition are an object of their own."""
        return tuple(f"{self.split}_{self.measure.name}_{part}" for part in self.field_parts)

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of its columns in CSV and Parquet."""
        prefix = f"{self.condition}_" if self.condition else ""
        return tuple(f"{prefix}{field}" for field in self.fields_on_clean_images)

    def terminal_orders(self, ranked_on: Split) -> tuple[int, int]:
        """Order in which a narrow terminal shortens and drops it; conditions before all others on the usual splits."""
        if self.condition:
            return -1, 0
        if self.split is Split.TRAIN:
            drop_order = _TRAIN_ORDERS.get(self.measure.name, -6)
            return drop_order - 1, drop_order
        ranks = self.split is ranked_on
        return self.measure.shorten_order[ranks], self.measure.drop_order[ranks]

    def value_of_row(self, row: LeaderboardRow) -> MeanStd | None:
        """The value of a row; None where the row was not measured."""
        return self.measure.value(row, self.split, self.condition)


def iter_metric_columns(
    task_metric_names: Sequence[str],
    condition_names: Sequence[str] = (),
    *,
    has_train: bool,
    condition_splits: Collection[Split] = SPLITS,
) -> Iterator[MetricColumn]:
    """The metrics on clean images, then those under every condition, then mean and worst over conditions.

    Args:
        task_metric_names: Names of the metrics of the task.
        condition_names: Names of the conditions.
        has_train: Whether networks were evaluated on the training split.
        condition_splits: Splits whose metrics under conditions are shown.
    """
    of_task = tuple(map(task_measure, task_metric_names))
    for condition in ("", *((*condition_names, *SUMMARIES) if condition_names else ())):
        for splits, measures in _METRIC_GROUPS:
            for split in splits:
                for measure in of_task if isinstance(measures, str) else measures:
                    column = MetricColumn(split, measure, condition)
                    if condition:
                        is_shown = split in condition_splits and not column.needs_train_split
                        is_shown = is_shown and not (measure.is_of_task and condition == WORST)
                    else:
                        is_shown = has_train or not column.needs_train_split
                    if is_shown:
                        yield column


def list_metric_columns(board: Leaderboard, condition_splits: Collection[Split] = SPLITS) -> list[MetricColumn]:
    """The metric columns of a leaderboard; there are no accuracies if the score has no correctness.

    Args:
        board: The leaderboard.
        condition_splits: Splits whose metrics under conditions are shown.
    """
    columns = iter_metric_columns(
        board.task_metric_names,
        board.condition_names,
        has_train=board.has_train_metrics,
        condition_splits=condition_splits,
    )
    return [column for column in columns if board.has_accuracy or column.measure is not ACCURACY]


def list_task_metric_legends(board: Leaderboard) -> list[str]:
    """What the metrics of the task are."""
    legends = (task_measure(name).legend for name in board.task_metric_names)
    return [legend for legend in legends if legend]


def capitalize(text: str) -> str:
    """The text with a capital."""
    return text[0].upper() + text[1:]
