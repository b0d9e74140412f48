"""How a network is trained."""

from __future__ import annotations

from enum import StrEnum
from math import cos, floor, pi
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bln_search.core.enums import CheckpointRule, Split
from bln_search.specs.sections.initialization import InitializationSpec
from bln_search.specs.sections.precision import TrainingPrecision
from bln_search.specs.spec_section import SpecSection, Unique

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


class ConstantRate(SpecSection):
    """A constant learning rate.

    Attributes:
        kind: The learning rate does not change.
    """

    kind: Literal["constant"] = "constant"

    def factor_at_progress(self, progress: float, epochs: int) -> float:  # noqa: ARG002 - every schedule takes both
        """The factor of the learning rate after `progress`, the fraction of `epochs` that is done."""
        return 1.0


class StepRate(SpecSection):
    """A step function.

    Attributes:
        kind: Steps.
        steps: Factors of the learning rate, by the fraction of training from which they apply.
    """

    kind: Literal["steps"]
    steps: dict[Fraction, Positive] = Field(min_length=1)

    def factor_at_progress(self, progress: float, epochs: int) -> float:  # noqa: ARG002 - every schedule takes both
        """The factor of the learning rate after `progress`, the fraction of `epochs` that is done."""
        past_steps = [fraction for fraction in self.steps if fraction <= progress]
        return self.steps[max(past_steps)] if past_steps else 1.0


class CosineRate(SpecSection):
    """Cosine annealing: half a cosine from the learning rate down to `final` times the learning rate.

    Attributes:
        kind: Cosine annealing.
        final: Final learning rate as a fraction of `learning_rate`.
    """

    kind: Literal["cosine"]
    final: Annotated[float, Field(ge=0, le=1)] = 0.0

    def factor_at_progress(self, progress: float, epochs: int) -> float:  # noqa: ARG002 - every schedule takes both
        """The factor of the learning rate after `progress`, the fraction of `epochs` that is done."""
        return self.final + (1 - self.final) * (1 + cos(pi * progress)) / 2


class ExponentialRate(SpecSection):
    """Exponential decay by epoch, as `torch.optim.lr_scheduler.ExponentialLR`.

    Attributes:
        kind: Exponential decay.
        gamma: Factor of the learning rate after each epoch.
    """

    kind: Literal["exponential"]
    gamma: Annotated[float, Field(gt=0, le=1)]

    def factor_at_progress(self, progress: float, epochs: int) -> float:
        """The factor of the learning rate after `progress`, the fraction of `epochs` that is done."""
        return float(self.gamma ** floor(progress * epochs + _ROUNDING))


_ROUNDING = 1e-9
"""Added to a number of epochs, so that rounding does not turn 3 into 2."""

RateSchedule = Annotated[ConstantRate | StepRate | CosineRate | ExponentialRate, Field(discriminator="kind")]


class AugmentationSpec(SpecSection):
    """Random augmentation of training images.

    Attributes:
        crop: Zero padding in pixels, from which an image of the original size is cropped at random.
        flip: Flip half of the images horizontally, at random.
        noise: Variance of normal noise that is added to every value, in units of the network's inputs: with
            `standardization: none` of pixels between 0 and 1.
        resized_crop: Random parts of 8 to 100 % of an image, resized to 224×224; for `imagenet`.
    """

    added_later = frozenset({"noise", "resized_crop"})

    crop: Annotated[int, Field(ge=0, le=1_000)] = 0
    flip: bool = False
    noise: Annotated[float, Field(ge=0, le=1_000)] = 0.0
    resized_crop: bool = False

    @model_validator(mode="after")
    def _check_crops(self) -> AugmentationSpec:
        if self.crop and self.resized_crop:
            raise ValueError("crop and resized_crop exclude each other: remove one")
        if self.noise and self.resized_crop:
            raise ValueError("noise and resized_crop exclude each other: remove one")
        return self


class TrainingSpec(SpecSection):
    """Optimizer, length and order of training.

    Attributes:
        optimizer: The optimizer.
        learning_rate: Initial learning rate.
        momentum: Momentum of `sgd`; by default 0.
        weight_decay: Weight decay of the optimizer.
        epsilon: ε of `adam`, added to the root of the second moment; by default torch's 1e-8 (Keras: 1e-7).
        schedule: Learning rate schedule.
        epochs: Number of epochs.
        batch_size: Mini-batch size m; a smaller last mini-batch of an epoch is dropped.
        order: `shuffled`: new mini-batches in each epoch; `fixed`: the same mini-batches in the same order.
        checkpoint: `best_validation`: keep the epoch of lowest validation loss; `last`: keep the last epoch. Epochs are
            compared over complete mini-batches. Every statistic comes from the mini-batch, unless the arm sets
            `judged_under`.
        augmentation: Data augmentation of images; by default none.
        epoch_splits: Splits on which each network is evaluated after each epoch: `validation`, alone or with `test`.
            Values of `test` are only shown; neither epochs nor configurations are selected by them.
        initialization: Scaling of the first weights, and the same first function for every arm; by default all arms of
            a seed have the same first weights.
        precision: `float32`; `tf32` and `bf16` compute matrix products and convolutions of training in TF32 on a GPU,
            or in bfloat16. Normalization layers, losses, validation and every evaluation compute in float32.
        compile: Compile the training steps with torch.compile, which needs a C++ compiler; for bn, ln, bln and none
            with the population `frozen`.
        fused_norms: Compute bn, ln, bln, mbn and brn in training steps with fused kernels, at most four launches for
            each layer. On a GPU they need Triton, which comes with torch. Other methods, and inputs whose statistics
            the kernels lack, such as images with the semantics `reference`, are computed as without it.
    """

    added_later = frozenset(
        {"augmentation", "epsilon", "epoch_splits", "initialization", "precision", "compile", "fused_norms"}
    )

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
    epoch_splits: Annotated[tuple[Literal[Split.VALIDATION, Split.TEST], ...], Unique] = (Split.VALIDATION,)
    initialization: InitializationSpec | None = None
    precision: TrainingPrecision = TrainingPrecision.FLOAT32
    compile: bool = False
    fused_norms: bool = False

    @field_validator("epoch_splits")
    @classmethod
    def _check_epoch_splits(cls, value: tuple[Split, ...]) -> tuple[Split, ...]:
        if Split.VALIDATION not in value:
            raise ValueError("epoch_splits needs validation, by which epochs are compared: write [validation, test]")
        return value

    @model_validator(mode="after")
    def _check_optimizer_options(self) -> TrainingSpec:
        if self.momentum is not None and self.optimizer != "sgd":
            raise ValueError(f"momentum belongs to the optimizer sgd, not to {self.optimizer}: remove it")
        if self.epsilon is not None and self.optimizer != "adam":
            raise ValueError(f"epsilon belongs to the optimizer adam, not to {self.optimizer}: remove it")
        return self
