"""The task that the networks of a study are trained for."""

from __future__ import annotations

from pydantic import model_validator

from bln_search.core.registry import data_task
from bln_search.core.tasks import RegressionLoss, TaskDescription, TaskName, describe_task
from bln_search.specs.spec_section import SpecSection


class TaskSpec(SpecSection):
    """What the networks predict.

    Attributes:
        name: `classification`, `multi_label`, `regression`, `token_classification`, `language_model` or
            `density`.
        loss: Loss of a regression: `squared_error` or `absolute_error`; by default `squared_error`.
    """

    added_later = frozenset({"loss"})

    name: TaskName
    loss: RegressionLoss | None = None

    @model_validator(mode="after")
    def _check_loss(self) -> TaskSpec:
        if self.loss is not None and self.name is not TaskName.REGRESSION:
            raise ValueError(f"only a regression has a choice of losses, not {self.name}: remove loss")
        return self

    @property
    def regression_loss(self) -> RegressionLoss:
        """The loss of a regression."""
        return self.loss or RegressionLoss.SQUARED_ERROR

    @property
    def description(self) -> TaskDescription:
        """What the task measures."""
        return describe_task(self.name, self.regression_loss)


def resolve_task(task: TaskSpec | None, data: str) -> TaskSpec:
    """The task of a study: as specified, otherwise that of its data set; that of a plugin is a classification."""
    return task or TaskSpec(name=data_task(data) or TaskName.CLASSIFICATION)
