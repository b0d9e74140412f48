"""Tasks of installed packages, which are registered in the entry point group `bln_search.tasks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from bln_search.core.errors import ModelError
from bln_search.core.extension_point import PAPERS, ExtensionPoint
from bln_search.core.loss_description import LossDescription
from bln_search.core.metric_description import BUILT_IN_METRICS, MetricDescription
from bln_search.core.tasks import RegressionLoss, TaskDescription, TaskName, describe_task

Reference = Callable[..., Any] | str
"""A function or class, or its place as `package.module:name`, which is imported when it is used."""

_GROUP = "bln_search.tasks"


@dataclass(frozen=True)
class TaskPlugin:
    """A task of an installed package. Its name is that of the entry point.

    The service loads this object too, without torch: give functions that need torch by their places.

    Attributes:
        loss: Name and unit of the loss.
        score: Function from outputs (n, ...) and targets (n, ...) to losses (n,) and correctness (n,). With
            `compares_examples` or `own_options` a class, or a function, that takes the own options of the study as
            keyword arguments and returns such a function.
        accuracy: When a prediction is correct, to continue "fraction of examples"; empty for a task without accuracy,
            whose correctness is ignored.
        metrics: For each metric, or for several with one object, a function that takes the own options of the study and
            returns an object with `update(outputs, targets)`, `compute()` and `reset()`. `compute()` returns a number,
            or of several metrics a mapping with the number of each name.
        check_labels: Function from the targets of a split (n, ...) and the number of outputs of the network to the text
            of a problem, or None; None to accept all labels.
        has_prediction_per_token: Whether there is a prediction for each token of a text. Models then have a parameter
            `per_token`.
        has_models_of_its_own: Whether it takes only models whose descriptions name it.
        scores_input_values: Whether the loss depends on the values of the inputs, which are then not standardized.
        compares_examples: Whether the loss of an example depends on the other examples of a mini-batch; the score is
            then a `bln_search.tasks.ContrastiveScore`. Labels are not stratified.
        own_options: Keys of `task` that this task alone has: for each the type of its value, which pydantic checks.
            Their defaults are those of the score.
    """

    loss: LossDescription
    score: Reference
    accuracy: str = ""
    metrics: Mapping[MetricDescription | tuple[MetricDescription, ...], Reference] = field(default_factory=dict)
    check_labels: Reference | None = None
    has_prediction_per_token: bool = False
    has_models_of_its_own: bool = False
    scores_input_values: bool = False
    compares_examples: bool = False
    own_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def description(self) -> TaskDescription:
        """What the task measures."""
        return TaskDescription(
            self.loss,
            self.accuracy,
            tuple(metric for metrics in self.metrics for metric in list_metrics(metrics)),
            has_prediction_per_token=self.has_prediction_per_token,
            has_models_of_its_own=self.has_models_of_its_own,
            scores_input_values=self.scores_input_values,
            compares_examples=self.compares_examples,
        )


TASKS = ExtensionPoint[TaskPlugin | None](
    "task",
    ModelError,
    dict.fromkeys(TaskName),
    info_type=TaskPlugin,
    info_group=_GROUP,
    packages={"retrieval": PAPERS},
)
"""Tasks; those of packages have descriptions."""


def list_metrics(metrics: MetricDescription | tuple[MetricDescription, ...]) -> tuple[MetricDescription, ...]:
    """The metrics of one object of a task."""
    return metrics if isinstance(metrics, tuple) else (metrics,)


def find_metric(name: str) -> MetricDescription | None:
    """The description of a metric of a task; None for one of a package that cannot be loaded."""
    if name in BUILT_IN_METRICS:
        return BUILT_IN_METRICS[name]
    plugins = (TASKS.find_info(task) for task in TASKS.plugins)
    metrics = (metric for plugin in plugins if plugin for metric in plugin.description.metrics)
    return next((metric for metric in metrics if metric.name == name), None)


def load_task_plugin(name: str) -> TaskPlugin:
    """The task of an installed package.

    Raises:
        ModelError: There is none, or it cannot be loaded.
    """
    plugin = TASKS.load_info(name) if name in TASKS.plugins else None
    if plugin is None:
        raise ModelError(f"the task {name} is of a package that is not installed here: install it")
    return plugin


def load_task_plugin_part(task: str, part: str, reference: Reference) -> Callable[..., Any]:
    """The function or class of a part of a plugin.

    Raises:
        ModelError: It cannot be imported, or is not callable.
    """
    try:
        loaded = EntryPoint(part, reference, _GROUP).load() if isinstance(reference, str) else reference
    except Exception as error:
        raise ModelError(f"the {part} of the task {task} of an installed package cannot be loaded: {error}") from error
    if not callable(loaded):
        raise ModelError(f"the {part} of the task {task} of an installed package is not a function: {loaded!r}")
    function: Callable[..., Any] = loaded
    return function


def find_task_description(name: str, loss: RegressionLoss = RegressionLoss.SQUARED_ERROR) -> TaskDescription:
    """What a task measures; only its name is known where its package cannot be loaded.

    Args:
        name: Of the task.
        loss: Of a regression.
    """
    if name in TASKS.built_in:
        return describe_task(TaskName(name), loss)
    plugin = TASKS.find_info(name)
    return TaskDescription(LossDescription(f"loss of the task {name}")) if plugin is None else plugin.description
