"""How each trained network of a study is evaluated, probed and ranked."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, field_validator, model_validator

from bln_search.core.blend import PopulationWeight
from bln_search.core.enums import Correction, PopulationEstimate, Split
from bln_search.specs.sections.arm import NameableEstimate
from bln_search.specs.sections.condition import ConditionSpec
from bln_search.specs.spec_section import SpecSection, Unique

BatchSizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...],
    Field(min_length=1, max_length=64),
    Unique,
]
"""Inference mini-batch sizes without repetition."""

EVALUATED_SPLITS = (Split.VALIDATION, Split.TEST)
"""The splits on which every network is evaluated."""


class TrainSplitSelection(StrEnum):
    """The training examples of an evaluation on the training split.

    Members:
        ALL: All of them.
        AS_VALIDATION: As many as validation has: the first ones of the training examples in the random order of
            `data.seed`.
    """

    ALL = "all"
    AS_VALIDATION = "as_validation"


def format_length_condition_name(length: int) -> str:
    """Return the name of the condition of texts of this length."""
    return f"length-{length}"


def _parse_blend(value: Any) -> Any:
    return value if isinstance(value, PopulationWeight) else PopulationWeight.parse(value)


def _serialize_blend(blend: PopulationWeight) -> float | str:
    return str(blend) if blend.is_prior else blend.value


BlendWeight = Annotated[
    PopulationWeight,
    PlainValidator(_parse_blend),
    PlainSerializer(_serialize_blend, return_type=float | str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "string", "pattern": r"^N[1-9][0-9]{0,8}(\.[0-9]{1,9})?$"},
            ]
        }
    ),
]
"""α, or N of α = N/(N+m); serialized in the form in which a study file has it."""


class EvaluationSpec(SpecSection):
    """The evaluation of each trained network.

    Attributes:
        population: Population estimates; a configuration that uses a population value has one row for each.
        correction: Correction of population standard deviations: `bessel`, undefined for m = 1, or `total`, defined for
            every m.
        per_slot: A separate feature population for each position in the mini-batch, as in the BLN authors' code,
            instead of one for all.
        splits: Further splits besides `validation` and `test`: `train`, the training examples without augmentation.
            It adds their loss and the generalization gap to every row, and never ranks or selects.
        train_examples: Training examples of `splits: [train]`: `all`, or `as_validation`, as many as validation has:
            the first ones in the random order of `data.seed`.
        batch_sizes: Inference mini-batch sizes, one row each; by default that of training; none larger than a split.
        conditions: Corruptions of the images; each adds a validation and a test set on which every row is evaluated.
            The clean images rank the rows.
        lengths: Further lengths of texts, in token ids: each adds a validation and a test set with the last token ids
            of every text, on which every row is evaluated. The length of the training data ranks the rows.
        blends: Weights α of the population in further rows with blended statistics, α·population + (1 − α)·mini-batch:
            numbers between 0 and 1, or `N16` for α = 16/(16 + m) with mini-batches of m.
        moving: Weights w in further rows with moving statistics, w·value before + (1 − w)·mini-batch, which begin at
            the population and move with the mini-batches of each split in their order: numbers as those of `blends`.
        metrics: Further metrics of a classification over all examples of a split: `ece`, the expected calibration
            error, and `brier`, the Brier score. They never rank or select.
    """

    added_later = frozenset({"conditions", "lengths", "blends", "moving", "splits", "train_examples", "metrics"})

    population: Annotated[tuple[NameableEstimate, ...], Unique] = Field(
        default=(PopulationEstimate.FROZEN,), min_length=1, max_length=8
    )
    correction: Correction = Correction.BESSEL
    per_slot: bool = False
    splits: tuple[Literal[Split.TRAIN], ...] = Field(default=(), max_length=1)
    train_examples: TrainSplitSelection = TrainSplitSelection.ALL
    batch_sizes: BatchSizes | None = None
    conditions: tuple[ConditionSpec, ...] = Field(default=(), max_length=64)
    lengths: Annotated[tuple[Annotated[int, Field(ge=1, le=10_000)], ...], Unique] = Field(default=(), max_length=16)
    blends: Annotated[tuple[BlendWeight, ...], Unique] = Field(default=(), max_length=32)
    moving: Annotated[tuple[BlendWeight, ...], Unique] = Field(default=(), max_length=32)
    metrics: Annotated[tuple[Literal["ece", "brier"], ...], Unique] = ()

    @model_validator(mode="after")
    def _check_train_examples(self) -> EvaluationSpec:
        if self.train_examples is not TrainSplitSelection.ALL and not self.splits:
            raise ValueError("train_examples has no effect without `splits: [train]`: add it, or remove train_examples")
        return self

    @property
    def evaluated_splits(self) -> tuple[Split, ...]:
        """The splits on which every network is evaluated, on clean images."""
        return (*EVALUATED_SPLITS, *self.splits)

    @field_validator("conditions")
    @classmethod
    def _check_condition_names(cls, conditions: tuple[ConditionSpec, ...]) -> tuple[ConditionSpec, ...]:
        names = [condition.name for condition in conditions]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise ValueError(f"two conditions are called {', '.join(sorted(repeated))}: give each a `name` of its own")
        return conditions

    @model_validator(mode="after")
    def _check_length_condition_names(self) -> EvaluationSpec:
        taken = {condition.name for condition in self.conditions} & set(map(format_length_condition_name, self.lengths))
        if taken:
            raise ValueError(f"a condition and a length are called {min(taken)}: give the condition another name")
        return self

    @property
    def additional_condition_names(self) -> tuple[str, ...]:
        """Names of the conditions beside the one that ranks: corruptions, then lengths."""
        return (*(condition.name for condition in self.conditions), *map(format_length_condition_name, self.lengths))


class ProbesSpec(SpecSection):
    """Probes of each trained network: figures besides the leaderboard, without further training.

    Attributes:
        batch_sizes: Inference mini-batch sizes.
        epochs: Interval of epochs after which the network is evaluated; its weights are stored.
        reshuffles: Number of reshuffles of the examples into other mini-batches; in a classification mini-batches of a
            single class are added.
        geometry: Number of training examples, in one mini-batch, on which the geometry of every dense and
            convolutional layer is measured after each epoch: norms of the weights, effective learning rate, curvature.
            For a classification only.
    """

    batch_sizes: BatchSizes | None = None
    epochs: Annotated[int, Field(ge=1, le=100_000)] | None = None
    reshuffles: Annotated[int, Field(ge=0, le=1_000)] = 0
    geometry: Annotated[int, Field(ge=2, le=100_000)] | None = None


class RankingSpec(SpecSection):
    """The split whose loss ranks the rows.

    Attributes:
        split: The split that ranks: `validation`, or `test` to compare with published tables, with a warning.
        practical: Difference of mean losses up to which rows are practically equal, in the unit of the loss. By default
            0.01 nats for a score that says which predictions are correct, else 1 % of the lowest loss.
        over: What the recommended row minimizes in a study with conditions or lengths: `worst`, its highest loss under
            any of them; `mean`, the mean of these losses; `clean`, the loss that ranks.
    """

    added_later: ClassVar = frozenset({"practical", "over"})

    split: Split = Split.VALIDATION
    practical: Annotated[float, Field(ge=0, le=1e6)] | None = None
    over: Literal["worst", "mean", "clean"] = "worst"

    @model_validator(mode="after")
    def _check_split(self) -> RankingSpec:
        if self.split is Split.TRAIN:
            raise ValueError("rank on validation (or on test, to compare with published tables), not on train")
        return self
