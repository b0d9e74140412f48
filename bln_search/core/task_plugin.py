"""Tasks of installed packages, which are registered in the entry point group `bln_search.tasks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from bln_search.core.errors import ModelError
from bln_search.core.loss_description import LossDescription
from bln_search.core.metric_description import MetricDescription
from bln_search.core.tasks import TaskDescription, TaskName

Reference = Callable[..., Any] | str
"""A function or class, or its place as `package.module:name`, which is imported when it is used."""

_GROUP = "bln_search.tasks"


@dataclass(frozen=True)
class TaskPlugin:
    """A task of an installed package. Its name is that of the entry point.

    The service loads this object too, without torch: give functions that need torch by their places.

    Attributes:
        loss: Name and unit of the loss.
        score: Function from outputs (n, ...) and targets (n, ...) to losses (n,) and correctness (n,).
        accuracy: When a prediction is correct, to continue "fraction of examples"; empty for a task without accuracy,
            whose correctness is ignored.
        metrics: For each metric a function without arguments that returns an object with `update(outputs, targets)`,
            `compute()` and `reset()`.
        check_labels: Function from the targets of a split (n, ...) and the number of outputs of the network to the text
            of a problem, or None; None to accept all labels.
    """

    loss: LossDescription
    score: Reference
    accuracy: str = ""
    metrics: Mapping[MetricDescription, Reference] = field(default_factory=dict)
    check_labels: Reference | None = None

    @property
    def description(self) -> TaskDescription:
        """What the task measures."""
        return TaskDescription(self.loss, self.accuracy, tuple(self.metrics))


@lru_cache(maxsize=1)
def plugin_task_entry_points() -> dict[str, EntryPoint]:
    """Tasks of installed packages."""
    return {point.name: point for point in entry_points(group=_GROUP) if point.name not in set(TaskName)}


def find_task_problem(name: str) -> str | None:
    """Why there is no task with this name; None if there is."""
    if name in set(TaskName):
        return None
    if name not in plugin_task_entry_points():
        return f"there is no task {name!r}; choose one of {', '.join(sorted({*TaskName, *plugin_task_entry_points()}))}"
    try:
        load_task_plugin(name)
    except ModelError as error:
        return str(error)
    return None


def load_task_plugin(name: str) -> TaskPlugin:
    """The task of an installed package.

    Raises:
        ModelError: There is none, or it cannot be loaded.
    """
    points = plugin_task_entry_points()
    if name not in points:
        raise ModelError(f"the task {name} is of a package that is not installed here: install it")
    try:
        plugin = points[name].load()
    except Exception as error:
        raise ModelError(f"the task {name} of an installed package cannot be loaded: {error}") from error
    if not isinstance(plugin, TaskPlugin):
        raise ModelError(f"the task {name} of an installed package is not a bln_search.core.task_plugin.TaskPlugin")
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


def describe_plugin_task(name: str) -> TaskDescription:
    """What the task of a package measures; only its name is known where the package cannot be loaded."""
    try:
        return load_task_plugin(name).description
    except ModelError:
        return TaskDescription(LossDescription(f"loss of the task {name}"))
