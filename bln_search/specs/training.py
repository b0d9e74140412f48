"""How a network is trained."""

from __future__ import annotations

from enum import StrEnum
from math import cos, pi
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bln_search.core.enums import CheckpointRule
from bln_search.specs.base import Spec

Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


class BatchOrder(StrEnum):
    """The order of the training examples.

    Members:
        FIXED: The same mini-batches in the same order in every epoch.
        SHUFFLED: A new random order in every epoch.
    """

    FIXED = "fixed"
    SHUFFLED = "shuffled"


class ConstantRate(Spec):
    """A constant learning rate."""

    kind: Literal["constant"] = "constant"

    def factor(self, progress: float) -> float:  # noqa: ARG002 - every schedule takes the progress
        """The factor of the learning rate after `progress`, the fraction of training that is done."""
        return 1.0


class StepRate(Spec):
    """A step function: the factor of each fraction applies from this fraction of training on."""

    kind: Literal["steps"]
    steps: dict[Fraction, Positive] = Field(min_length=1)

    def factor(self, progress: float) -> float:
        """The factor of the learning rate after `progress`, the fraction of training that is done."""
        past_steps = [fraction for fraction in self.steps if fraction <= progress]
        return self.steps[max(past_steps)] if past_steps else 1.0


class CosineRate(Spec):
    """Half a cosine from the learning rate down to `final` times the learning rate."""

    kind: Literal["cosine"]
    final: Annotated[float, Field(ge=0, le=1)] = 0.0

    def factor(self, progress: float) -> float:
        """The factor of the learning rate after `progress`, the fraction of training that is done."""
        return self.final + (1 - self.final) * (1 + cos(pi * progress)) / 2


RateSchedule = Annotated[ConstantRate | StepRate | CosineRate, Field(discriminator="kind")]


class AugmentationSpec(Spec):
    """Random augmentation of training images.

    Attributes:
        crop: Zero padding in pixels, from which an image of the original size is cropped.
        flip: Flip half of the images horizontally.
    """

    crop: Annotated[int, Field(ge=0, le=1_000)] = 0
    flip: bool = False


class TrainingSpec(Spec):
    """Optimizer, length and order of training.

    Attributes:
        batch_size: m; incomplete mini-batches are dropped in training.
        checkpoint: Which epoch's weights become the checkpoint.
        epsilon: ε of Adam, added to the root of the second moment; by default torch's 1e-8 (Keras: 1e-7).
    """

    added_later = frozenset({"augmentation", "epsilon"})

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Positive = 0.002
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    epsilon: Positive | None = None
    schedule: RateSchedule = ConstantRate()
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 15
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 25
    order: BatchOrder = BatchOrder.SHUFFLED
    checkpoint: CheckpointRule = CheckpointRule.BEST_VALIDATION
    augmentation: AugmentationSpec | None = None

    @model_validator(mode="after")
    def _check_optimizer_options(self) -> TrainingSpec:
        if self.momentum is not None and self.optimizer != "sgd":
            raise ValueError(f"momentum belongs to the optimizer sgd, not to {self.optimizer}: remove it")
        if self.epsilon is not None and self.optimizer != "adam":
            raise ValueError(f"epsilon belongs to the optimizer adam, not to {self.optimizer}: remove it")
        return self
