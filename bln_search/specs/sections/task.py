"""The task that the networks of a study are trained for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from bln_search.core.names import NAME_PATTERN
from bln_search.core.registry import find_data_set_task
from bln_search.core.task_plugin import TASKS, find_task_description
from bln_search.core.tasks import RegressionLoss, TaskDescription, TaskName, as_built_in_task
from bln_search.specs.own_options import SectionWithOwnOptions


class TaskSpec(SectionWithOwnOptions):
    """What the networks predict.

    Attributes:
        name: `classification`, `multi_label`, `regression`, `token_classification`, `language_model`, `density`,
            or the name of a task of an installed package. Such a task may have further keys.
        loss: Loss of a regression: `squared_error` or `absolute_error`; by default `squared_error`.
    """

    kind: ClassVar[str] = "task"
    added_later = frozenset({"loss"})

    name: Annotated[str, Field(pattern=NAME_PATTERN), AfterValidator(as_built_in_task)]
    loss: RegressionLoss | None = None

    @classmethod
    def find_own_options(cls, name: str) -> Mapping[str, Any] | None:
        """The type of each option that the task alone has; None for a task that is not known here."""
        if name in TASKS.built_in:
            return {}
        plugin = TASKS.find_info(name)
        return None if plugin is None else plugin.own_options

    @model_validator(mode="after")
    def _check_loss(self) -> TaskSpec:
        if self.loss is not None and self.name is not TaskName.REGRESSION:
            raise ValueError(f"only a regression has a choice of losses, not {self.name}: remove loss")
        return self

    @property
    def built_in_name(self) -> TaskName | None:
        """The built-in task; None for a task of a package."""
        return self.name if isinstance(self.name, TaskName) else None

    @property
    def regression_loss(self) -> RegressionLoss:
        """The loss of a regression."""
        return self.loss or RegressionLoss.SQUARED_ERROR

    @property
    def description(self) -> TaskDescription:
        """What the task measures."""
        return find_task_description(self.name, self.regression_loss)


def resolve_task(task: TaskSpec | None, data: str) -> TaskSpec:
    """The task of a study: as specified, otherwise that of its data set; that of a plugin is a classification."""
    return task or TaskSpec(name=find_data_set_task(data))
