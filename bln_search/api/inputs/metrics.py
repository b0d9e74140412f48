"""Metrics over all examples of a split, such as mIoU or AUC, for each row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.norms.row_batching.row_tensor import InferenceRow

MetricFunction = Callable[[Tensor, Tensor], Any]
"""A function from all outputs (n, ...) and targets (n, ...) of a split, on the CPU, to a number."""

MetricValues = Mapping[EvaluationKey, Mapping[str, float]]
"""The values of the metrics of each measured row and split."""

_RESERVED = ("loss", "accuracy", "loss_mean", "accuracy_mean", "loss_deviation", "accuracy_deviation")
"""Names of columns that every table has."""


@dataclass(frozen=True)
class Metric:
    """A metric over all examples of a split.

    Attributes:
        function: A function of all outputs (n, ...) and targets (n, ...) that returns a number. Or an object with
            `update(outputs, targets)`, `compute()` and `reset()`, such as a metric of torchmetrics; a row has a copy.
        higher_is_better: Whether a higher value is better.
    """

    function: MetricFunction | Any
    higher_is_better: bool = True

    @property
    def is_streaming(self) -> bool:
        """Whether it takes one mini-batch after another and needs no outputs of the whole split."""
        return all(callable(getattr(self.function, name, None)) for name in ("update", "compute", "reset"))


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
    return {_validated_custom_metric_name(name): _parse_metric(name, metric) for name, metric in metrics.items()}


def _validated_custom_metric_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or name in _RESERVED:
        raise ValueError(f"{name!r} cannot be the name of a metric: give a text other than {', '.join(_RESERVED)}")
    return name


def _parse_metric(name: str, metric: UserMetric) -> Metric:
    resolved = metric if isinstance(metric, Metric) else Metric(metric, _is_higher_better(metric))
    if isinstance(resolved.function, type) or not (resolved.is_streaming or callable(resolved.function)):
        kind = resolved.function.__name__ if isinstance(resolved.function, type) else type(resolved.function).__name__
        raise TypeError(
            f"the metric {name!r} is {kind}: give a function of outputs and targets, or an object with update, compute "
            "and reset"
        )
    return resolved


def _is_higher_better(metric: Any) -> bool:
    """Whether a higher value is better, as torchmetrics says; True where nothing says so."""
    return getattr(metric, "higher_is_better", None) is not False


@dataclass
class _RowMetricState:
    """What one row has collected: copies of streaming metrics, outputs for the others, the first failure."""

    streaming: dict[str, Any]
    outputs: list[Tensor] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)


class SplitMetricRecorder:
    """Collects the outputs of every row of one split, and computes its metrics.

    Args:
        metrics: The metrics by name.
        rows: The number of rows.
        examples: The number of examples of the split; None where it is unknown.
        memory_limit: Bytes of the outputs that are kept for metrics that are functions.
    """

    def __init__(self, metrics: Mapping[str, Metric], rows: int, examples: int | None, memory_limit: int) -> None:
        self._metrics, self._rows, self._examples, self._limit = metrics, rows, examples, memory_limit
        self._keeps_outputs = any(not metric.is_streaming for metric in metrics.values())
        self._states: dict[InferenceRow, _RowMetricState] = {}
        self._targets: list[Tensor] = []
        self._first_row: InferenceRow | None = None
        self._kept_bytes = 0

    def add_outputs(self, row: InferenceRow, outputs: Tensor, targets: Tensor) -> None:
        """Add outputs (n, ...) of a row and their targets. Raises ModelError if the outputs exceed the memory limit."""
        if row not in self._states:
            streaming = {name: metric for name, metric in self._metrics.items() if metric.is_streaming}
            self._states[row] = _RowMetricState(
                {name: _copy_and_reset_metric(metric) for name, metric in streaming.items()}
            )
        state = self._states[row]
        for name, metric in state.streaming.items():
            device = getattr(metric, "device", "cpu")
            try:
                metric.update(outputs.to(device), targets.to(device))
            except Exception as error:  # noqa: BLE001 - reported with the row, unless the row has diverged
                state.failures.setdefault(name, error)
        if self._keeps_outputs:
            self._first_row = self._first_row or row
            if row == self._first_row:
                self._targets.append(targets.cpu())
            self._check_kept_outputs_fit_memory(outputs)
            state.outputs.append(outputs.to("cpu", copy=True))

    def compute_metrics_of_measured_rows(
        self, evaluations: Iterable[Evaluation]
    ) -> dict[EvaluationKey, dict[str, float]]:
        """The values of the metrics of each measured row.

        Raises:
            ModelError: A metric fails, or returns no number; the message names the metric and the row.
        """
        rows = {
            InferenceRow(evaluation.key.configuration, evaluation.key.estimate): evaluation
            for evaluation in evaluations
        }
        return {
            rows[row].key: {name: self._compute_metric_of_row(name, row, state) for name in self._metrics}
            for row, state in self._states.items()
            if rows[row].state is EvaluationState.MEASURED
        }

    def _compute_metric_of_row(self, name: str, row: InferenceRow, state: _RowMetricState) -> float:
        failure = state.failures.get(name)
        value: Any = None
        if failure is None:
            try:
                value = self._call_metric(name, state)
            except Exception as error:  # noqa: BLE001 - a function of the user may raise anything
                failure = error
        if failure is not None:
            raise ModelError(
                f"the metric {name!r} failed in the row {row.label} ({type(failure).__name__}: {failure})"
            ) from failure
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):
            raise ModelError(
                f"the metric {name!r} returned {type(value).__name__} in the row {row.label}: it must return one number"
            ) from None

    def _call_metric(self, name: str, state: _RowMetricState) -> Any:
        if name in state.streaming:
            return state.streaming[name].compute()
        return self._metrics[name].function(torch.cat(state.outputs), torch.cat(self._targets))

    def _check_kept_outputs_fit_memory(self, outputs: Tensor) -> None:
        size = outputs.numel() * outputs.element_size()
        self._kept_bytes += size
        expected = 0 if self._examples is None else self._rows * self._examples * size // len(outputs)
        needed = max(self._kept_bytes, expected)
        if needed > self._limit:
            raise ModelError(
                f"metrics that are functions need the outputs of all rows, at least {needed / 2**20:,.0f} MiB, more "
                f"than memory_limit, {self._limit / 2**20:,.0f} MiB: raise memory_limit, or give a metric with update "
                "and compute, as those of torchmetrics"
            )


def _copy_and_reset_metric(metric: Metric) -> Any:
    duplicate: Any = copy.deepcopy(metric.function)
    duplicate.reset()
    return duplicate


def find_dataset_length(loader: object) -> int | None:
    """The number of examples of a loader's data set; None where it is unknown."""
    try:
        return len(loader.dataset)  # type: ignore[attr-defined]
    except (AttributeError, TypeError, NotImplementedError):
        return None


def metric_values_of_row_by_split(
    values: MetricValues, key: EvaluationKey, splits: Iterable[Split]
) -> dict[Split, Mapping[str, float]]:
    """The values of one row by split; `key` names the row."""
    keys = {split: EvaluationKey(key.configuration, key.estimate, key.batch_size, split) for split in splits}
    return {split: values[key] for split, key in keys.items() if key in values}


def mean_metric_values_over_networks(networks: Sequence[MetricValues]) -> dict[EvaluationKey, dict[str, float]]:
    """Means over networks, for the rows and splits that have a value in each of them."""
    first, *others = networks
    return {
        key: {name: fmean(values[key][name] for values in networks) for name in first[key]}
        for key in first
        if all(key in values for values in others)
    }
