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
    """fixed: the same mini-batches in the same order every epoch; shuffled: drawn anew each epoch."""

    FIXED = "fixed"
    SHUFFLED = "shuffled"


class ConstantRate(Spec):
    """The learning rate stays as it is."""

    kind: Literal["constant"] = "constant"

    def factor(self, progress: float) -> float:  # noqa: ARG002 - every schedule takes the progress
        """What the learning rate is multiplied by after `progress`, the fraction of training that is done."""
        return 1.0


class StepRate(Spec):
    """From each fraction of training on, the learning rate is multiplied by the factor given for it."""

    kind: Literal["steps"]
    steps: dict[Fraction, Positive] = Field(min_length=1)

    def factor(self, progress: float) -> float:
        """What the learning rate is multiplied by after `progress`, the fraction of training that is done."""
        passed = [at for at in self.steps if at <= progress]
        return self.steps[max(passed)] if passed else 1.0


class CosineRate(Spec):
    """Half a cosine from the learning rate down to `final` times it."""

    kind: Literal["cosine"]
    final: Annotated[float, Field(ge=0, le=1)] = 0.0

    def factor(self, progress: float) -> float:
        """What the learning rate is multiplied by after `progress`, the fraction of training that is done."""
        return self.final + (1 - self.final) * (1 + cos(pi * progress)) / 2


RateSchedule = Annotated[ConstantRate | StepRate | CosineRate, Field(discriminator="kind")]


class AugmentationSpec(Spec):
    """Training images changed at random, each time they are seen.

    crop: pixels of zeros around the image from which one of its own size is cut. flip: mirrored half of the time.
    """

    crop: Annotated[int, Field(ge=0, le=1_000)] = 0
    flip: bool = False


class TrainingSpec(Spec):
    """Optimizer, length and order of training.

    batch_size: m; incomplete mini-batches are dropped in training. checkpoint: which epoch's weights are kept.
    epsilon: what Adam adds to the root of its second average, by default torch's 1e-8 (Keras has 1e-7).
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
    def _options_of_the_optimizer(self) -> TrainingSpec:
        if self.momentum is not None and self.optimizer != "sgd":
            raise ValueError(f"momentum belongs to the optimizer sgd, not to {self.optimizer}: remove it")
        if self.epsilon is not None and self.optimizer != "adam":
            raise ValueError(f"epsilon belongs to the optimizer adam, not to {self.optimizer}: remove it")
        return self
