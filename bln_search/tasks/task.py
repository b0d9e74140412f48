"""How the outputs of a network are compared with their targets, in training and in evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from bln_search.core.task_plugin import load_task_plugin
from bln_search.core.tasks import RegressionLoss, TaskDescription, TaskName
from bln_search.specs.sections.task import TaskSpec
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from bln_search.tasks.losses import (
    absolute_errors,
    multi_label_cross_entropy_and_correctness,
    score_density_outputs,
    score_token_outputs,
    squared_errors,
)
from bln_search.tasks.plugin import load_plugin_score
from bln_search.tasks.score import ContrastiveScore, Score


@dataclass(frozen=True)
class Task:
    """A task of a study.

    Attributes:
        description: what it measures of an example.
        score: losses and correctness of outputs, example by example; correctness is False everywhere where the task
            has none.
    """

    description: TaskDescription
    score: Score

    @property
    def predicts_classes(self) -> bool:
        """Whether the network predicts one class for each example."""
        return False

    def mean_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a mini-batch, which training minimizes."""
        return self.score(outputs, targets)[0].mean()

    def sum_of_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the losses."""
        return self.score(outputs, targets)[0].sum()

    @property
    def compares_examples(self) -> bool:
        """Whether the loss of an example depends on the outputs for other examples."""
        return isinstance(self.score, ContrastiveScore)

    def count_correct(self, outputs: Tensor, targets: Tensor) -> Tensor | None:
        """Return the number of correct predictions; None for a task without accuracy."""
        return self.score(outputs, targets)[1].sum() if self.description.has_accuracy else None


class Classification(Task):
    """One class for each example, with softmax cross-entropy; losses and correctness are computed only where needed."""

    @property
    def predicts_classes(self) -> bool:
        """Whether the network predicts one class for each example."""
        return True

    def mean_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a mini-batch, which training minimizes."""
        return F.cross_entropy(outputs, targets)

    def sum_of_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the losses."""
        return F.cross_entropy(outputs, targets, reduction="sum")

    def count_correct(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the number of correct predictions."""
        return (outputs.argmax(1) == targets).sum()


class ContrastiveTask(Task):
    """A task whose losses compare the examples of a mini-batch or a split with each other."""

    def mean_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a mini-batch, which training minimizes."""
        return self.sum_of_losses(outputs, targets) / len(targets)

    def sum_of_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the losses of examples that are compared with each other."""
        assert isinstance(self.score, ContrastiveScore)
        return self.score.score_examples_together(outputs, targets)[0].sum()


def make_task(spec: TaskSpec) -> Task:
    """Return the task of a study. Raises ModelError if it is of a package that cannot be loaded."""
    task = spec.built_in_name
    if task is None:
        score = load_plugin_score(spec.name, load_task_plugin(spec.name), spec.own_options)
        return (ContrastiveTask if isinstance(score, ContrastiveScore) else Task)(spec.description, score)
    if task is TaskName.CLASSIFICATION:
        return CLASSIFICATION
    score = _REGRESSION_SCORES[spec.regression_loss] if task is TaskName.REGRESSION else _SCORES[task]
    return Task(spec.description, score)


def _squared_error(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return _without_correctness(squared_errors(outputs, targets))


def _absolute_error(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return _without_correctness(absolute_errors(outputs, targets))


def _without_correctness(losses: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean losses of the examples, with False for the correctness that they do not have."""
    means = losses.flatten(1).mean(1) if losses.ndim > 1 else losses
    return means, means.new_zeros(len(means)).bool()


_SCORES: Mapping[TaskName, Score] = {
    TaskName.MULTI_LABEL: multi_label_cross_entropy_and_correctness,
    TaskName.TOKEN_CLASSIFICATION: score_token_outputs,
    TaskName.LANGUAGE_MODEL: score_token_outputs,
    TaskName.DENSITY: score_density_outputs,
}

_REGRESSION_SCORES: Mapping[RegressionLoss, Score] = {
    RegressionLoss.SQUARED_ERROR: _squared_error,
    RegressionLoss.ABSOLUTE_ERROR: _absolute_error,
}

CLASSIFICATION = Classification(TaskSpec(name=TaskName.CLASSIFICATION).description, cross_entropy_and_correctness)
"""The task of a study whose labels are classes."""
