"""Metrics of the user over all examples of a split, such as mIoU or AUC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from bln_search.evaluation.row_evaluator import OutputObserver
from bln_search.evaluation.scoring import score_examples
from bln_search.evaluation.split_metrics import Metric, MetricFunction
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.tasks.score import Score

_RESERVED = ("loss", "accuracy", "loss_mean", "accuracy_mean", "loss_deviation", "accuracy_deviation")
"""Names of columns that every table has."""


UserMetric = Metric | MetricFunction | Any


def parse_metrics(metrics: Mapping[str, UserMetric] | None) -> dict[str, Metric]:
    """The metrics by name, each with its direction.

    Raises:
        TypeError: It is not a mapping, or a metric is neither a function nor an object with update and compute.
        ValueError: A name is not possible.
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(
            f'metrics has the type {type(metrics).__name__}: give metrics by name, as in {{"AUC": function}}'
        )
    return {name: _parse_metric(name, metric) for name, metric in metrics.items()}


def _parse_metric(name: object, metric: UserMetric) -> Metric:
    if not isinstance(name, str) or not name.strip() or name in _RESERVED:
        raise ValueError(f"{name!r} cannot be the name of a metric: give a text other than {', '.join(_RESERVED)}")
    is_higher_better = getattr(metric, "higher_is_better", None) is not False  # as torchmetrics says
    resolved = metric if isinstance(metric, Metric) else Metric(metric, is_higher_better)
    if isinstance(resolved.function, type) or not (resolved.is_streaming or callable(resolved.function)):
        kind = resolved.function.__name__ if isinstance(resolved.function, type) else type(resolved.function).__name__
        raise TypeError(
            f"the metric {name!r} is {kind}: give a function of outputs and targets, or an object with update, compute "
            "and reset"
        )
    return resolved


class CountedExamplesObserver:
    """Passes outputs on without the examples that a score leaves out, as those whose targets are all ignored.

    The weights of the score are equal in all rows.
    """

    def __init__(self, observe: OutputObserver, score: Score) -> None:
        self._observe, self._score = observe, score
        self._targets: Tensor | None = None
        self._counted: Tensor | None = None

    def __call__(self, row: InferenceRow, outputs: Tensor, targets: Tensor) -> None:
        """Pass on the examples with a weight above 0."""
        if self._targets is not targets:  # further rows come with the same targets
            weights = score_examples(self._score, outputs, targets).weights
            is_complete = weights is None or bool((weights > 0).all())
            self._targets, self._counted = targets, None if is_complete or weights is None else weights > 0
        if self._counted is None:
            self._observe(row, outputs, targets)
        elif bool(self._counted.any()):
            self._observe(row, outputs[self._counted], targets[self._counted])
