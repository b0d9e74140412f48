"""Metrics over all examples of a split, such as R², mIoU or AUC, for each row."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.norms.row_batching.row_tensor import InferenceRow

_log = logging.getLogger(__name__)

MetricFunction = Callable[[Tensor, Tensor], Any]
"""A function from all outputs (n, ...) and targets (n, ...) of a split, on the CPU, to a number."""


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
            self._states[row] = self._make_state()
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

    def _make_state(self) -> _RowMetricState:
        state = _RowMetricState({})
        for name, metric in self._metrics.items():
            if not metric.is_streaming:
                continue
            try:
                state.streaming[name] = copy.deepcopy(metric.function)
                state.streaming[name].reset()
            except Exception as error:  # noqa: BLE001 - reported with the row, as one of update
                state.failures[name] = error
        return state

    def add_metrics_to_evaluations(self, evaluations: Iterable[Evaluation]) -> list[Evaluation]:
        """The evaluations, those of measured rows with the metrics that have a finite value.

        A metric that fails is left out, with a warning in the log that names it, for the first row where it fails.
        """
        warned: set[str] = set()
        return [
            replace(evaluation, metrics=self._find_finite_metrics(evaluation, warned))
            if evaluation.state is EvaluationState.MEASURED
            else evaluation
            for evaluation in evaluations
        ]

    def _find_finite_metrics(self, evaluation: Evaluation, warned: set[str]) -> dict[str, float]:
        row = InferenceRow(evaluation.key.configuration, evaluation.key.estimate)
        found: dict[str, float] = {}
        for name in self._metrics:
            try:
                value = self._compute_metric(name, row)
                values = value if isinstance(value, Mapping) else {name: value}  # one metric may compute several
                numbers = {key: _as_number(part, name, row) for key, part in values.items()}
            except ModelError as error:
                if name not in warned:
                    warned.add(name)
                    _log.warning("%s on the split %s: the metric is missing", error, evaluation.key.split)
                continue
            found |= {key: number for key, number in numbers.items() if isfinite(number)}
        return found

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
            rows[row].key: {name: _as_number(self._compute_metric(name, row), name, row) for name in self._metrics}
            for row in self._states
            if rows[row].state is EvaluationState.MEASURED
        }

    def _compute_metric(self, name: str, row: InferenceRow) -> Any:
        """Return what a metric returns for a row. Raises ModelError where it fails."""
        state = self._states[row]
        failure = state.failures.get(name)
        if failure is None:
            try:
                if name in state.streaming:
                    return state.streaming[name].compute()
                return self._metrics[name].function(torch.cat(state.outputs), torch.cat(self._targets))
            except Exception as error:  # noqa: BLE001 - a function of the user may raise anything
                failure = error
        raise ModelError(
            f"the metric {name!r} failed in the row {row.label} ({type(failure).__name__}: {failure})"
        ) from failure

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


def _as_number(value: Any, name: str, row: InferenceRow) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ModelError(
            f"the metric {name!r} returned {type(value).__name__} in the row {row.label}: it must return one number"
        ) from None
