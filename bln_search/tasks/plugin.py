"""Scores, metrics and label checks of tasks of installed packages. Each error names the task."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bln_search.core.errors import BlnSearchError, DataError, ModelError
from bln_search.core.task_plugin import TaskPlugin, list_metrics, load_task_plugin, load_task_plugin_part
from bln_search.tasks.metrics import StreamingMetric
from bln_search.tasks.score import ContrastiveScore, Score

_log = logging.getLogger(__name__)
_METHODS = ("update", "compute", "reset")


@dataclass(frozen=True)
class _CheckedScore:
    """The score of a plugin, with checks of what it returns.

    Attributes:
        task: Its name.
        score: The plugin's.
    """

    task: str
    score: Score

    def __call__(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and correctness. Raises ModelError if the plugin's score fails or returns other shapes."""
        return self._check(self.score, outputs, targets)

    def _check(self, score: Score, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        try:
            scores = score(outputs, targets)
        except (BlnSearchError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise ModelError(
                f"the score of the task {self.task} of an installed package failed ({type(error).__name__}: {error})"
            ) from error
        shape = (len(outputs),)
        is_pair = isinstance(scores, tuple | list) and len(scores) == 2
        if not is_pair or any(not isinstance(values, Tensor) or values.shape != shape for values in scores):
            raise ModelError(
                f"the score of the task {self.task} of an installed package must return losses and correctness of "
                f"shape {shape}, not {_describe(scores)}"
            )
        losses, correct = scores
        return losses, correct


class _CheckedContrastiveScore(_CheckedScore, ContrastiveScore):
    """A score of a plugin that compares examples, with checks of what it returns."""

    score: ContrastiveScore

    def score_examples_together(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and correctness of all examples. Raises ModelError as `__call__`."""
        return self._check(self.score.score_examples_together, outputs, targets)


def load_plugin_score(name: str, plugin: TaskPlugin, options: Mapping[str, Any]) -> Score:
    """Return the score of a plugin, with checks of what it returns.

    Args:
        name: of the task.
        plugin: the task.
        options: its own options in the study.

    Raises:
        ModelError: it cannot be loaded, or compares no examples although the task declares it.
    """
    score = load_task_plugin_part(name, "score", plugin.score)
    if plugin.own_options or plugin.compares_examples:
        score = score(**options)
    if not plugin.compares_examples:
        return _CheckedScore(name, score)
    if not isinstance(score, ContrastiveScore):
        raise ModelError(f"the score of the task {name} of an installed package is no ContrastiveScore: {score!r}")
    return _CheckedContrastiveScore(name, score)


def make_plugin_metrics(name: str, options: Mapping[str, Any]) -> dict[str, StreamingMetric]:
    """Return new objects for the metrics of a plugin, by name. One that cannot be made is left out, with a warning.

    Args:
        name: of the task.
        options: its own options in the study.
    """
    metrics = {}
    for described, reference in load_task_plugin(name).metrics.items():
        first = list_metrics(described)[0].name
        part = f"metric {first}"
        try:
            metric = load_task_plugin_part(name, part, reference)(**options)
            missing = [method for method in _METHODS if not callable(getattr(metric, method, None))]
            if missing:
                raise TypeError(f"{type(metric).__name__} has no method {missing[0]}")  # noqa: TRY301 - one handler
        except Exception as error:  # noqa: BLE001 - evaluations are kept without the metric
            _log.warning("the %s of the task %s of an installed package is missing: %s", part, name, error)
            continue
        metrics[first] = metric
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
    load_task_plugin_part(name, "score", plugin.score)
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
