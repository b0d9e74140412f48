"""The columns of the leaderboard: the one place that declares them.

Terminal, LaTeX and Markdown, the report, the web pages, and CSV, JSON and Parquet render these descriptors. A new
column is a `RowColumn` in `ROW_COLUMNS`; a new metric is a `Measure` in `_METRIC_GROUPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property, lru_cache

from bln_search.core.enums import Split
from bln_search.core.method import Statistic
from bln_search.core.records import RowKey
from bln_search.core.states import EvaluationState
from bln_search.core.task_plugin import find_metric
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.comparison import ComparedRow, RowVerdict
from bln_search.ranking.condition_metrics import MEAN, SUMMARIES, WORST
from bln_search.ranking.leaderboard import Leaderboard, LeaderboardRow
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.reports.formatting import compared_rows_by_key
from bln_search.reports.sentences.leaderboard import find_unranked_reason
from bln_search.reports.tables.columns import CellKind

BatchSizes = Mapping[RowKey, tuple[int, ...]]
"""Mini-batch sizes, in increasing order, of rows that stand for rows which are equal to them by construction."""

SPLITS = (Split.VALIDATION, Split.TEST)
CROSS_ENTROPY = "mean cross-entropy in nats"
"""The loss of a study, with its unit."""


class Form(Flag):
    """Forms of the leaderboard.

    Members:
        TERMINAL: The table that the command prints.
        PUBLICATION: LaTeX and Markdown.
        REPORT: The report of a study.
        PAGE: The page of the service.
        EXPORT: CSV, JSON, JSON lines, Parquet, and the rows of REST.
    """

    TERMINAL = auto()
    PUBLICATION = auto()
    REPORT = auto()
    PAGE = auto()
    EXPORT = auto()
    TABLES = TERMINAL | PUBLICATION | REPORT | PAGE
    ALL = TABLES | EXPORT


_NOWHERE = Form(0)


# metrics ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A metric that rows have on a split.

    Attributes:
        name: Name in columns: `loss`, `accuracy`, `gap`, or that of a metric of the task.
        value: Value of a row on a split, on clean images or under a condition; None where it was not measured.
        label: Name in headings.
        legend: What it is, below a table; empty where the name suffices.
        explanation: What it is, at the heading of a page, if that differs from the legend.
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
    explanation: str = ""
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
    explanation="loss of this split minus the train loss",
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


# other columns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ViewedRow:
    """A row with what an analysis says about it.

    Attributes:
        row: The row.
        batch_sizes: Mini-batch sizes of the rows that equal it, in increasing order.
        compared: The row's part of the comparison of all rows; None without one.
        is_recommended: Whether it is the recommended row; None without a recommendation.
    """

    row: LeaderboardRow
    batch_sizes: tuple[int, ...]
    compared: ComparedRow | None = None
    is_recommended: bool | None = None


class LeaderboardView:
    """The rows of a leaderboard with what an analysis says about them.

    Args:
        board: The leaderboard.
        compared: Compared rows by key; empty without a comparison.
        recommended: The recommended row; None without one.
        sizes: Mini-batch sizes of the rows that stand for several.
    """

    def __init__(
        self,
        board: Leaderboard,
        compared: Mapping[RowKey, ComparedRow] | None = None,
        recommended: RowKey | None = None,
        sizes: BatchSizes | None = None,
    ) -> None:
        self.board, self.compared, self.recommended, self.sizes = board, compared or {}, recommended, sizes

    @classmethod
    def of_analysis(
        cls, board: Leaderboard, analysis: Analysis | None, sizes: BatchSizes | None = None
    ) -> LeaderboardView:
        """The rows with an analysis; None for a study that is not analyzed."""
        recommendation = None if analysis is None else analysis.recommendation
        recommended = None if recommendation is None else recommendation.key
        return cls(board, compared_rows_by_key(analysis), recommended, sizes)

    def batch_sizes_of(self, key: RowKey) -> tuple[int, ...]:
        """Mini-batch sizes of the rows that a row stands for."""
        return (self.sizes or {}).get(key, (key.batch_size,))

    def view_row(self, row: LeaderboardRow) -> ViewedRow:
        """A row with the verdict and the recommendation of the rows that it stands for."""
        if not self.sizes and not self.compared and self.recommended is None:
            return ViewedRow(row, (row.batch_size,))
        key = row.key
        equal = [key.with_batch_size(size) for size in self.batch_sizes_of(key)]
        compared = next((self.compared[other] for other in equal if other in self.compared), None)
        is_recommended = None if self.recommended is None else self.recommended in equal
        return ViewedRow(row, tuple(other.batch_size for other in equal), compared, is_recommended)


Value = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class RowColumn:
    """A column of the leaderboard that is no metric.

    Attributes:
        name: Name in exports and links.
        value: Value of a row in exports; None for a missing one; by default the attribute.
        attribute: Attribute of `LeaderboardRow` that has the value.
        text: Text of a row in tables; by default that of the value, and a dash for a missing one.
        forms: Where it is shown.
        label: Its heading in tables, in lower case; by default the name.
        kind: How cells are set.
        type: Type of the values in Parquet.
        explanation: What it contains, where the heading does not say it.
        term: Anchor of its term in the glossary; empty without one.
        where_rows_differ: Forms in which it is shown only where rows have different values; on the page at first.
        is_optional: Whether tables leave it out where no row has a text.
        identifies: Whether it identifies its row, so that further tables in a terminal repeat it. With a drop order it
            does only where rows differ, and is not dropped then.
        of_analysis: Whether only exports with an analysis have it.
        drop_order: Order in which a narrow terminal drops it; None for never.
    """

    name: str
    value: Callable[[ViewedRow], Value] | None = None
    attribute: str = ""
    text: Callable[[ViewedRow], str] | None = None
    forms: Form = Form.ALL
    label: str = ""
    kind: CellKind = CellKind.TEXT
    type: type[str | int | float | bool] = str
    explanation: str = ""
    term: str = ""
    where_rows_differ: Form = _NOWHERE
    is_optional: bool = False
    identifies: bool = False
    of_analysis: bool = False
    drop_order: int | None = None

    @property
    def heading(self) -> str:
        """The heading in lower case."""
        return self.label or self.name

    def value_of_row(self, viewed: ViewedRow) -> Value:
        """The value of a row in exports."""
        if self.value is not None:
            return self.value(viewed)
        value: Value = getattr(viewed.row, self.attribute)
        return value

    def text_of_row(self, viewed: ViewedRow) -> str:
        """The cell of a row in a table."""
        if self.text is not None:
            return self.text(viewed)
        value = self.value_of_row(viewed)
        return "–" if value is None else str(value)

    def do_rows_differ(self, rows: Iterable[LeaderboardRow]) -> bool:
        """Whether rows have different values of the attribute."""
        return len({value for row in rows if (value := getattr(row, self.attribute)) is not None}) > 1

    def is_shown(self, form: Form, rows: Sequence[ViewedRow]) -> bool:
        """Whether a table has it."""
        if form not in self.forms:
            return False
        if form in self.where_rows_differ:
            return self.do_rows_differ(viewed.row for viewed in rows)
        return not self.is_optional or any(map(self.text_of_row, rows))


def _state_and_reason(viewed: ViewedRow) -> str:
    reason = find_unranked_reason(viewed.row)
    return f"{viewed.row.state.value}: {reason}" if reason else viewed.row.state.value


def evaluation_setting_id_of_row(key: RowKey) -> str:
    """What rows with other configurations have in common with this one: arm, point, estimate and batch size."""
    parts = {"arm": key.arm, "parameters": key.point, "population": key.estimate, "batch_size": key.batch_size}
    return ";".join(f"{name}={value}" for name, value in parts.items() if value)


def _source_column(statistic: Statistic) -> RowColumn:
    return RowColumn(
        name=statistic.value,
        value=lambda viewed: viewed.row.configuration.source_of(statistic).value,
        forms=Form.PUBLICATION | Form.REPORT | Form.EXPORT,
        kind=CellKind.SWITCH,
    )


def _analysis_column(name: str, value: Callable[[ComparedRow], float], *, of_best: bool = True) -> RowColumn:
    """A figure of the comparison in exports. of_best: whether the best row, which is compared with itself, has it."""

    def value_of_row(viewed: ViewedRow) -> float | None:
        compared = viewed.compared
        if compared is None or (compared.verdict is RowVerdict.BEST and not of_best):
            return None
        return value(compared)

    return RowColumn(name=name, value=value_of_row, forms=Form.EXPORT, type=float, of_analysis=True)


METRICS_HERE = "metrics"
"""Place of the metrics among the columns of a table."""

ROW_COLUMNS: tuple[RowColumn | str, ...] = (
    RowColumn(
        name="setting",
        value=lambda viewed: evaluation_setting_id_of_row(viewed.row.key),
        forms=Form.EXPORT,
        of_analysis=True,
    ),
    RowColumn(
        name="recommended",
        value=lambda viewed: viewed.is_recommended,
        text=lambda viewed: "*" if viewed.is_recommended else "",
        forms=Form.TERMINAL | Form.EXPORT,
        kind=CellKind.CODE,
        type=bool,
        explanation="* recommended",
        is_optional=True,
        of_analysis=True,
    ),
    RowColumn(name="rank", attribute="rank", kind=CellKind.NUMBER, type=int, term="rank", identifies=True),
    RowColumn(
        name="verdict",
        value=lambda viewed: None if viewed.compared is None else viewed.compared.verdict.value,
        text=lambda viewed: "" if viewed.compared is None else viewed.compared.verdict.value,
        forms=Form.TERMINAL | Form.PUBLICATION | Form.PAGE | Form.EXPORT,
        kind=CellKind.CODE,
        explanation="the row beside the best one (95 %)",
        term="verdict",
        is_optional=True,
        of_analysis=True,
        drop_order=10,
    ),
    RowColumn(
        name="arm",
        attribute="arm",
        term="arm",
        where_rows_differ=Form.TABLES,
        identifies=True,
    ),
    RowColumn(
        name="parameters",
        value=lambda viewed: viewed.row.point or None,
        text=lambda viewed: viewed.row.parameters,
        forms=Form.TERMINAL | Form.PUBLICATION | Form.REPORT | Form.EXPORT,
        is_optional=True,
        identifies=True,
    ),
    RowColumn(
        name="configuration",
        value=lambda viewed: str(viewed.row.configuration),
        forms=Form.TERMINAL | Form.EXPORT,
        kind=CellKind.CODE,
        identifies=True,
    ),
    *map(_source_column, Statistic),
    RowColumn(
        name="population",
        attribute="estimate",
        kind=CellKind.CODE,
        term="estimate",
        where_rows_differ=Form.PAGE,
        identifies=True,
        drop_order=7,
    ),
    RowColumn(
        name="batch_size",
        attribute="batch_size",
        text=lambda viewed: ", ".join(map(str, viewed.batch_sizes)),
        label="batch",
        kind=CellKind.NUMBER,
        type=int,
        explanation="mini-batch size at inference",
        term="evaluation",
        where_rows_differ=Form.TERMINAL | Form.PAGE,
        identifies=True,
    ),
    METRICS_HERE,
    RowColumn(
        name="state",
        value=lambda viewed: viewed.row.state.value,
        text=lambda viewed: "" if viewed.row.state is EvaluationState.MEASURED else viewed.row.state.value,
        forms=Form.TERMINAL | Form.EXPORT,
        kind=CellKind.CODE,
        is_optional=True,
    ),
    RowColumn(name="state_and_reason", value=_state_and_reason, forms=Form.REPORT, label="state"),
    RowColumn(
        name="cost",
        value=lambda viewed: viewed.row.configuration.num_statistics_from_mini_batch,
        forms=Form.PAGE,
        kind=CellKind.NUMBER,
        explanation="statistics that are computed from the mini-batch at inference, of those the method has",
        term="cost",
    ),
    RowColumn(
        name="seeds",
        attribute="seeds",
        forms=Form.TERMINAL | Form.REPORT | Form.PAGE | Form.EXPORT,
        kind=CellKind.NUMBER,
        type=int,
        term="seed",
        where_rows_differ=Form.TERMINAL,
        drop_order=7,
    ),
    RowColumn(name="reason", value=lambda viewed: find_unranked_reason(viewed.row), forms=Form.EXPORT),
    _analysis_column("loss_above_best", lambda compared: compared.above_best.mean),
    _analysis_column("loss_above_best_low", lambda compared: compared.above_best.low, of_best=False),
    _analysis_column("loss_above_best_high", lambda compared: compared.above_best.high, of_best=False),
    _analysis_column("p_value", lambda compared: compared.above_best.adjusted, of_best=False),
    _analysis_column("p_best", lambda compared: compared.first_share),
)
"""The columns in the order of tables; exports have those of the analysis last, and `reason` after the losses."""


def list_row_columns(form: Form) -> list[RowColumn]:
    """The columns of a form, without metrics."""
    return [column for column in ROW_COLUMNS if not isinstance(column, str) and form in column.forms]


def capitalize(text: str) -> str:
    """The text with a capital."""
    return text[0].upper() + text[1:]
