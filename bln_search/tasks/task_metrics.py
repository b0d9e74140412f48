"""The metrics of the tasks, each with an object that accumulates it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from numpy import float64
from numpy.typing import NDArray

from bln_search.core.metric_description import (
    BITS_PER_DIMENSION,
    MACRO_F1,
    MEAN_ABSOLUTE_ERROR,
    MICRO_F1,
    PERPLEXITY,
    R2,
    TOKEN_ACCURACY,
    MetricDescription,
)
from bln_search.core.tasks import TaskName
from bln_search.specs.sections.task import TaskSpec
from bln_search.tasks.calibration import CALIBRATION_METRICS
from bln_search.tasks.metrics import (
    BitsPerDimension,
    MeanAbsoluteError,
    MultiLabelF1Score,
    Perplexity,
    R2Score,
    StreamingMetric,
    TokenAccuracy,
    TokenMacroF1Score,
)
from bln_search.tasks.plugin import make_plugin_metrics


@dataclass(frozen=True)
class DimensionsAndTargetDeviation:
    """What metrics need to know of the data.

    Attributes:
        dimensions: numbers of an input; None for several inputs, or where it differs between examples.
        target_deviation: deviation by which the targets of a regression were divided, (1, numbers); None without.
    """

    dimensions: int | None
    target_deviation: NDArray[float64] | None = None


MetricFactory = Callable[[DimensionsAndTargetDeviation], StreamingMetric]


def make_metrics(
    spec: TaskSpec, scale: DimensionsAndTargetDeviation, further: Iterable[str] = ()
) -> dict[str, StreamingMetric]:
    """Return new objects for the metrics of a task, by name; one of several metrics by the first name.

    Args:
        spec: The task.
        scale: What metrics need to know of the data.
        further: Names of metrics of calibration, of a classification.
    """
    return _make_task_metrics(spec, scale) | {name: CALIBRATION_METRICS[name]() for name in further}


def _make_task_metrics(spec: TaskSpec, scale: DimensionsAndTargetDeviation) -> dict[str, StreamingMetric]:
    task = spec.built_in_name
    if task is None:
        return make_plugin_metrics(spec.name, spec.own_options)
    return {description.name: make(scale) for description, make in _METRICS.get(task, {}).items()}


def _make_mean_absolute_error(scale: DimensionsAndTargetDeviation) -> StreamingMetric:
    deviation = scale.target_deviation
    return MeanAbsoluteError(None if deviation is None else torch.from_numpy(deviation))


_METRICS: Mapping[TaskName, Mapping[MetricDescription, MetricFactory]] = {
    TaskName.REGRESSION: {R2: lambda _: R2Score(), MEAN_ABSOLUTE_ERROR: _make_mean_absolute_error},
    TaskName.MULTI_LABEL: {
        MACRO_F1: lambda _: MultiLabelF1Score(macro=True),
        MICRO_F1: lambda _: MultiLabelF1Score(macro=False),
    },
    TaskName.TOKEN_CLASSIFICATION: {TOKEN_ACCURACY: lambda _: TokenAccuracy(), MACRO_F1: lambda _: TokenMacroF1Score()},
    TaskName.LANGUAGE_MODEL: {PERPLEXITY: lambda _: Perplexity(), TOKEN_ACCURACY: lambda _: TokenAccuracy()},
    TaskName.DENSITY: {BITS_PER_DIMENSION: lambda scale: BitsPerDimension(scale.dimensions)},
}
