"""Metrics of the user over all examples of a split, such as mIoU or AUC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from bln_search.core.metric_description import BUILT_IN_METRICS
from bln_search.evaluation.row_evaluator import OutputObserver
from bln_search.evaluation.scoring import score_examples
from bln_search.evaluation.split_metrics import Metric, MetricFunction
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.tasks.calibration import CALIBRATION_METRICS
from bln_search.tasks.score import Score

_RESERVED = ("loss", "accuracy", "loss_mean", "accuracy_mean", "loss_deviation", "accuracy_deviation")
"""Names of columns that every table has."""


UserMetric = Metric | MetricFunction | Any


def parse_metrics(metrics: Mapping[str, UserMetric] | Sequence[str] | None) -> dict[str, Metric]:
    """The metrics by name, each with its direction. A text is the name of a built-in metric of a classification.

    Raises:
        TypeError: It is neither a mapping nor a list of names, or a metric is none.
        ValueError: A name is not possible, or there is no built-in metric with this name.
    """
    if metrics is None:
        return {}
    if isinstance(metrics, list | tuple) and all(isinstance(name, str) for name in metrics):
        metrics = {name: name for name in metrics}
    if not isinstance(metrics, Mapping):
        raise TypeError(
            f'metrics has the type {type(metrics).__name__}: give metrics by name, as in {{"AUC": function}}, or a '
            f"list of {', '.join(CALIBRATION_METRICS)}"
        )
    return {name: _parse_metric(name, metric) for name, metric in metrics.items()}


def _parse_metric(name: object, metric: UserMetric) -> Metric:
    if not isinstance(name, str) or not name.strip() or name in _RESERVED:
        raise ValueError(f"{name!r} cannot be the name of a metric: give a text other than {', '.join(_RESERVED)}")
    if isinstance(metric, str):
        return _make_built_in_metric(metric)
    is_higher_better = getattr(metric, "higher_is_better", None) is not False  # as torchmetrics says
    resolved = metric if isinstance(metric, Metric) else Metric(metric, is_higher_better)
    if isinstance(resolved.function, type) or not (resolved.is_streaming or callable(resolved.function)):
        kind = resolved.function.__name__ if isinstance(resolved.function, type) else type(resolved.function).__name__
        raise TypeError(
            f"the metric {name!r} is {kind}: give a function of outputs and targets, or an object with update, compute "
            "and reset"
        )
    return resolved


def _make_built_in_metric(name: str) -> Metric:
    if name not in CALIBRATION_METRICS:
        raise ValueError(
            f"there is no metric {name!r}: choose one of {', '.join(CALIBRATION_METRICS)}, or give a function"
        )
    return Metric(CALIBRATION_METRICS[name](), BUILT_IN_METRICS[name].higher_is_better)


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
