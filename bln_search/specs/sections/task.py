"""The task that the networks of a study are trained for."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from bln_search.core.names import NAME_PATTERN
from bln_search.core.registry import DATA_SETS
from bln_search.core.task_plugin import find_task_description
from bln_search.core.tasks import RegressionLoss, Similarity, TaskDescription, TaskName, as_built_in_task
from bln_search.specs.spec_section import SpecSection

_MARGIN = 0.2


class TaskSpec(SpecSection):
    """What the networks predict.

    Attributes:
        name: `classification`, `multi_label`, `regression`, `token_classification`, `language_model`, `density`,
            `retrieval`, or the name of a task of an installed package.
        loss: Loss of a regression: `squared_error` or `absolute_error`; by default `squared_error`.
        similarity: Similarity of the embeddings of a retrieval: `cosine`, or `order` for embeddings of which the second
            is the more general; by default `cosine`.
        margin: Margin of the loss of a retrieval, above 0 and at most 2; by default 0.2.
    """

    added_later = frozenset({"loss", "similarity", "margin"})

    name: Annotated[str, Field(pattern=NAME_PATTERN), AfterValidator(as_built_in_task)]
    loss: RegressionLoss | None = None
    similarity: Similarity | None = None
    margin: Annotated[float, Field(gt=0, le=2, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _check_loss(self) -> TaskSpec:
        if self.loss is not None and self.name is not TaskName.REGRESSION:
            raise ValueError(f"only a regression has a choice of losses, not {self.name}: remove loss")
        return self

    @model_validator(mode="after")
    def _check_similarity(self) -> TaskSpec:
        if (self.similarity, self.margin) != (None, None) and self.name is not TaskName.RETRIEVAL:
            raise ValueError(f"only a retrieval has a similarity and a margin, not {self.name}: remove them")
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
    def retrieval_similarity(self) -> Similarity:
        """The similarity of the embeddings of a retrieval."""
        return self.similarity or Similarity.COSINE

    @property
    def retrieval_margin(self) -> float:
        """The margin of the loss of a retrieval."""
        return _MARGIN if self.margin is None else self.margin

    @property
    def description(self) -> TaskDescription:
        """What the task measures."""
        return find_task_description(self.name, self.regression_loss)


def resolve_task(task: TaskSpec | None, data: str) -> TaskSpec:
    """The task of a study: as specified, otherwise that of its data set; that of a plugin is a classification."""
    info = DATA_SETS.find_info(data)
    return task or TaskSpec(name=TaskName.CLASSIFICATION if info is None else info.task)
