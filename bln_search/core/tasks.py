"""What networks are trained for: the built-in tasks, with the loss of an example and its unit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
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

NO_CLASS = -1
"""Label of a token without a class, such as padding."""


class TaskName(StrEnum):
    """A built-in task.

    Members:
        CLASSIFICATION: One class for each example.
        MULTI_LABEL: Any number of labels for each example.
        REGRESSION: One or more numbers for each example.
        TOKEN_CLASSIFICATION: One class for each token of a text.
        LANGUAGE_MODEL: The next token after each token of a text.
        DENSITY: The probability of the example itself.
    """

    CLASSIFICATION = "classification"
    MULTI_LABEL = "multi_label"
    REGRESSION = "regression"
    TOKEN_CLASSIFICATION = "token_classification"  # noqa: S105 - a token of a text
    LANGUAGE_MODEL = "language_model"
    DENSITY = "density"


def as_built_in_task(name: str) -> str:
    """The member of TaskName for a built-in task; the name as it is for a task of a package."""
    return TaskName(name) if name in set(TaskName) else name


class RegressionLoss(StrEnum):
    """The loss of a regression, a mean over the numbers of an example."""

    SQUARED_ERROR = "squared_error"
    ABSOLUTE_ERROR = "absolute_error"


@dataclass(frozen=True)
class TaskDescription:
    """What a task measures of an example.

    Attributes:
        loss: Name and unit of the loss.
        accuracy: When a prediction is correct, to continue "fraction of examples"; empty for a task whose predictions
            are not just right or wrong.
        metrics: Metrics over all examples of a split.
        has_prediction_per_token: Whether there is a prediction for each token of a text.
        has_models_of_its_own: Whether it takes only models whose descriptions name it.
        scores_input_values: Whether the loss depends on the values of the inputs, which are then not standardized.
        compares_examples: Whether the loss of an example depends on the other examples of a mini-batch.
    """

    loss: LossDescription
    accuracy: str = ""
    metrics: tuple[MetricDescription, ...] = ()
    has_prediction_per_token: bool = False
    has_models_of_its_own: bool = False
    scores_input_values: bool = False
    compares_examples: bool = False

    @property
    def has_accuracy(self) -> bool:
        """Whether the task says of each example if its prediction is correct."""
        return bool(self.accuracy)


_DESCRIPTIONS = {
    TaskName.CLASSIFICATION: TaskDescription(CROSS_ENTROPY, "whose most probable class is the right one"),
    TaskName.MULTI_LABEL: TaskDescription(
        LossDescription("binary cross-entropy per label", "nats"),
        "all of whose labels are right",
        (MACRO_F1, MICRO_F1),
    ),
    TaskName.TOKEN_CLASSIFICATION: TaskDescription(
        LossDescription("cross-entropy per token", "nats"),
        metrics=(TOKEN_ACCURACY, MACRO_F1),
        has_prediction_per_token=True,
    ),
    TaskName.LANGUAGE_MODEL: TaskDescription(
        LossDescription("cross-entropy per token", "nats"),
        metrics=(PERPLEXITY, TOKEN_ACCURACY),
        has_prediction_per_token=True,
    ),
    TaskName.DENSITY: TaskDescription(
        LossDescription("negative log-likelihood", "nats"),
        metrics=(BITS_PER_DIMENSION,),
        has_models_of_its_own=True,
        scores_input_values=True,
    ),
}

_REGRESSION_LOSSES = {
    RegressionLoss.SQUARED_ERROR: LossDescription("squared error", "variances of the training targets"),
    RegressionLoss.ABSOLUTE_ERROR: LossDescription("absolute error", "deviations of the training targets"),
}


def describe_task(task: TaskName, loss: RegressionLoss = RegressionLoss.SQUARED_ERROR) -> TaskDescription:
    """What a task measures; `loss` matters for a regression only."""
    if task is TaskName.REGRESSION:
        return TaskDescription(_REGRESSION_LOSSES[loss], metrics=(R2, MEAN_ABSOLUTE_ERROR))
    return _DESCRIPTIONS[task]
