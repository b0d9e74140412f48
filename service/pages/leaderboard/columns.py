"""Columns of the leaderboard page, and the choice of them that its link keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from bln_search.ranking.comparison import Comparison
from bln_search.ranking.condition_metrics import SUMMARIES
from bln_search.ranking.leaderboard import Leaderboard
from bln_search.reports.leaderboard_columns import GAP, METRICS, MetricColumn
from service.pages.leaderboard.rows import list_shown_metrics, metric_sort_parameter

PARAMETER = "parameter:"
"""Prefix of the key of a column with a parameter of the search space."""

_PER_CENT = "\N{NO-BREAK SPACE}%"
_GAP_EXPLANATION = "loss of this split minus the train loss"
_MAX_CONDITIONS_AT_FIRST = 3
"""With more conditions, only their mean and worst value are shown at first."""


@dataclass(frozen=True)
class LeaderboardColumn:
    """A column beside rank and configuration.

    Attributes:
        key: Its name in the link.
        heading: Its heading.
        explanation: What it contains, where the heading does not say it.
        is_number: Whether its values are numbers.
        sort: Value of `sort` that orders by it; None where no order is offered.
        at_first: Whether it is shown where the link names no columns.
        term: Anchor of its term in the glossary; empty without one.
        condition: Heading of the condition, under which the head of the table joins its columns; empty without one.
    """

    key: str
    heading: str
    explanation: str | None = None
    is_number: bool = False
    sort: str | None = None
    at_first: bool = True
    term: str = ""
    condition: str = ""

    @property
    def heading_below_condition(self) -> str:
        """The heading without the condition."""
        return self.heading.removeprefix(self.condition).lstrip()

    @property
    def parameter_name(self) -> str | None:
        """Name of the parameter that the column contains; None for other columns."""
        return self.key.removeprefix(PARAMETER) if self.key.startswith(PARAMETER) else None

    @property
    def is_accuracy(self) -> bool:
        """Whether it contains an accuracy, which is shown in per cent."""
        return self.key.partition(":")[0].partition("_")[2] == "accuracy"

    @property
    def is_metric(self) -> bool:
        """Whether it contains a metric, which rows without a value lack."""
        return self.key == "interval" or self.key.startswith(("validation_", "test_", "train_"))


def list_available_columns(
    board: Leaderboard, parameters: Sequence[str], comparison: Comparison | None, *, loss: str
) -> list[LeaderboardColumn]:
    """Return the columns that have values.

    Args:
        board: The leaderboard.
        parameters: Names of the parameters of the study's points.
        comparison: The comparison of the rows; None before the study is complete.
        loss: What the losses are, with their unit.
    """
    rows = board.rows
    columns = _comparison_columns() if comparison is not None else []
    if len({row.arm for row in rows}) > 1:
        columns.append(LeaderboardColumn("arm", "Arm", term="arm"))
    columns += [
        LeaderboardColumn(f"{PARAMETER}{name}", name, f"parameter {name} of the search space", term="point")
        for name in parameters
    ]
    estimates = {row.estimate for row in rows if row.estimate}
    columns.append(LeaderboardColumn("population", "Population", at_first=len(estimates) > 1, term="estimate"))
    several = len({row.batch_size for row in rows}) > 1
    columns.append(
        LeaderboardColumn(
            "batch_size", "Batch", "mini-batch size at inference", is_number=True, at_first=several, term="evaluation"
        )
    )
    columns += _interval_and_metric_columns(board, loss)
    columns.append(
        LeaderboardColumn(
            "cost",
            "Cost",
            "statistics that are computed from the mini-batch at inference, of those the method has",
            is_number=True,
            term="cost",
        )
    )
    columns.append(LeaderboardColumn("seeds", "Seeds", is_number=True, term="seed"))
    return columns


def _comparison_columns() -> list[LeaderboardColumn]:
    return [
        LeaderboardColumn("verdict", "Verdict", "the row beside the best one (95 %)", term="verdict"),
    ]


def _interval_and_metric_columns(board: Leaderboard, loss: str) -> list[LeaderboardColumn]:
    """The interval as a picture, then the metrics: those on clean images, then those under conditions."""
    few = len(board.condition_names) <= _MAX_CONDITIONS_AT_FIRST
    metrics = [
        LeaderboardColumn(
            metric_sort_parameter(metric),
            f"{metric.split.value.capitalize()} {metric.metric_label}{_PER_CENT if metric.metric == 'accuracy' else ''}"
            if not metric.condition
            else metric.heading.replace(" %", _PER_CENT),
            {GAP: _GAP_EXPLANATION, METRICS[0]: loss}.get(metric.metric, metric.task_metric_legend) or None,
            is_number=True,
            sort=metric_sort_parameter(metric),
            at_first=not metric.condition or few or metric.condition in SUMMARIES,
            term=_metric_glossary_anchor(metric),
            condition=metric.condition_label,
        )
        for metric in list_shown_metrics(board)
    ]
    ranked_loss = f"{board.ranked_on}_loss"
    position = next(index for index, column in enumerate(metrics) if column.key == ranked_loss)
    heading = f"{board.ranked_on.value.capitalize()} loss, 95{_PER_CENT}"
    picture = LeaderboardColumn("interval", heading, "confidence interval as a line", term="confidence-interval")
    return [*metrics[: position + 1], picture, *metrics[position + 1 :]]


def _metric_glossary_anchor(metric: MetricColumn) -> str:
    """Anchor in the glossary of what a metric on clean images is; empty for others."""
    if metric.metric == GAP:
        return "generalization-gap"
    if metric.is_of_task:
        return "task-metric"
    return "split" if metric.metric == "loss" and not metric.condition else ""


def group_columns_by_condition(columns: Sequence[LeaderboardColumn]) -> list[tuple[str, list[LeaderboardColumn]]]:
    """Return the columns with the heading of their condition, adjacent columns of one condition together.

    Args:
        columns: The shown columns.
    """
    return [(condition, list(group)) for condition, group in groupby(columns, key=lambda column: column.condition)]


def choose_shown_columns(
    available: Sequence[LeaderboardColumn], names: Sequence[str], condition: str | None
) -> list[LeaderboardColumn]:
    """Return the columns to show, in their order.

    Args:
        available: All columns.
        names: Columns that the link names; those that the study lacks are ignored.
        condition: Condition whose rows are shown: of the columns under conditions only its own remain.
    """
    chosen = [column for column in available if column.key in names] or [
        column for column in available if column.at_first or (condition and column.key.endswith(f":{condition}"))
    ]
    if condition is None:
        return chosen
    return [
        column
        for column in chosen
        if not column.is_metric or ":" not in column.key or column.key.endswith(f":{condition}")
    ]
