"""Scores, metrics and label checks of tasks of installed packages. Each error names the task."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import torch
from torch import Tensor

from bln_search.core.errors import DataError, ModelError
from bln_search.core.task_plugin import TaskPlugin, load_task_plugin, load_task_plugin_part
from bln_search.tasks.metrics import StreamingMetric
from bln_search.tasks.score import Score

_log = logging.getLogger(__name__)
_METHODS = ("update", "compute", "reset")


def load_plugin_score(name: str, plugin: TaskPlugin) -> Score:
    """Return the score of a plugin, with checks of what it returns.

    Raises:
        ModelError: it cannot be loaded. The returned score raises it if the plugin's fails or returns other shapes.
    """
    score = load_task_plugin_part(name, "score", plugin.score)

    def checked_score(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        try:
            scores = score(outputs, targets)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise ModelError(
                f"the score of the task {name} of an installed package failed ({type(error).__name__}: {error})"
            ) from error
        shape = (len(outputs),)
        is_pair = isinstance(scores, tuple | list) and len(scores) == 2
        if not is_pair or any(not isinstance(values, Tensor) or values.shape != shape for values in scores):
            raise ModelError(
                f"the score of the task {name} of an installed package must return losses and correctness of shape "
                f"{shape}, not {_describe(scores)}"
            )
        losses, correct = scores
        return losses, correct

    return checked_score


def make_plugin_metrics(name: str) -> dict[str, StreamingMetric]:
    """Return new objects for the metrics of a plugin, by name. One that cannot be made is left out, with a warning."""
    metrics = {}
    for description, reference in load_task_plugin(name).metrics.items():
        part = f"metric {description.name}"
        try:
            metric = load_task_plugin_part(name, part, reference)()
            missing = [method for method in _METHODS if not callable(getattr(metric, method, None))]
            if missing:
                raise TypeError(f"{type(metric).__name__} has no method {missing[0]}")  # noqa: TRY301 - one handler
        except Exception as error:  # noqa: BLE001 - evaluations are kept without the metric
            _log.warning("the %s of the task %s of an installed package is missing: %s", part, name, error)
            continue
        metrics[description.name] = metric
    return metrics


def check_plugin_targets(name: str, targets: Mapping[str, Tensor], outputs: int) -> None:
    """Check the targets of a study with the task of a plugin, and that its parts can be loaded.

    Args:
        name: of the task.
        targets: of each split, (n, ...).
        outputs: number of outputs of the network.

    Raises:
        DataError: the labels do not fit the task; the message is that of the plugin.
        ModelError: the plugin cannot be loaded, or its check fails.
    """
    plugin = load_task_plugin(name)
    load_plugin_score(name, plugin)
    if plugin.check_labels is None:
        return
    check = load_task_plugin_part(name, "check of labels", plugin.check_labels)
    for split, of_split in targets.items():
        try:
            problem = check(of_split, outputs)
        except Exception as error:
            raise ModelError(
                f"the check of labels of the task {name} of an installed package failed ({type(error).__name__}: "
                f"{error})"
            ) from error
        if problem is not None:
            raise DataError(f"the {split} labels do not fit the task {name}: {problem}")


def _describe(scores: object) -> str:
    """Shapes or types of what a score returned."""
    if isinstance(scores, Tensor):
        return f"a tensor of shape {tuple(scores.shape)}"
    if isinstance(scores, tuple | list):
        return f"({', '.join(map(_describe, scores))})"
    return type(scores).__name__
