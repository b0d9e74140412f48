"""Records of training and evaluation, independent of torch and of the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ProbeKind, Split
from bln_search.core.states import EvaluationState

if TYPE_CHECKING:
    from bln_search.core.example_outcomes import ExampleOutcomes


@dataclass(frozen=True, order=True)
class EvaluationKey:
    """Identifies an evaluation of a checkpoint.

    Attributes:
        configuration: Inference configuration.
        estimate: Population estimate; None if the configuration reads no population value.
        batch_size: Inference mini-batch size.
        split: Split of the data.
        condition: Name of the study's condition whose corrupted images were evaluated; empty for clean images.
    """

    configuration: InferenceConfiguration
    estimate: str | None
    batch_size: int
    split: Split
    condition: str = ""

    @property
    def has_no_condition(self) -> bool:
        """Whether the images of the data set were evaluated as they are."""
        return not self.condition

    @staticmethod
    @lru_cache(maxsize=4096)  # many rows share a few keys
    def from_database_values(
        configuration: str, estimate: str, batch_size: int, split: str, condition: str = ""
    ) -> EvaluationKey:
        """The key of a stored evaluation or probe; `estimate` is empty if no population value is read."""
        return EvaluationKey(
            InferenceConfiguration(configuration), estimate or None, batch_size, Split(split), condition
        )


class RowKey(NamedTuple):
    """Identity of a leaderboard row: all that its evaluations share over seeds, splits and conditions.

    A named tuple because a leaderboard builds and hashes one for each of up to hundreds of thousands of evaluations,
    which takes a frozen dataclass three times as long. Use its fields by name.

    Attributes:
        arm: Label of the arm.
        point: Point of the search space as JSON with sorted keys; empty without a space.
        configuration: Inference configuration.
        estimate: Population estimate; None where the configuration reads no population value.
        batch_size: Inference mini-batch size.
    """

    arm: str
    point: str
    configuration: InferenceConfiguration
    estimate: str | None
    batch_size: int

    @classmethod
    def of_evaluation(cls, arm: str, point: str, key: EvaluationKey) -> RowKey:
        """The row that an evaluation of this arm and point belongs to."""
        return cls(arm, point, key.configuration, key.estimate, key.batch_size)

    def with_batch_size(self, batch_size: int) -> RowKey:
        """The same row at another inference mini-batch size."""
        return self._replace(batch_size=batch_size)

    @property
    def arm_configuration_and_estimate_label(self) -> str:
        """Arm, configuration and estimate, separated by spaces."""
        return " ".join(part for part in (self.arm, self.configuration.code, self.estimate) if part)


@dataclass(frozen=True)
class Evaluation:
    """One network under one configuration.

    Attributes:
        key: Configuration, estimate, batch size, split and condition.
        state: Whether it was measured.
        n: Number of examples that count.
        loss: Mean loss (nats); None unless measured.
        accuracy: Accuracy (fraction); None unless measured, and if the score says of no example whether it is correct.
        reason: Why it is undefined or diverged, or why it ended before the other rows.
        outcomes: Per-example results; None where they are not loaded.
        metrics: Metrics of the task by name; those without a finite value are missing.
    """

    key: EvaluationKey
    state: EvaluationState
    n: int
    loss: float | None = None
    accuracy: float | None = None
    reason: str | None = None
    outcomes: ExampleOutcomes | None = field(default=None, repr=False, compare=False)
    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)

    @staticmethod
    def make_undefined(key: EvaluationKey, reason: str) -> Evaluation:
        """An evaluation for which a formula has no value."""
        return Evaluation(key, EvaluationState.UNDEFINED, n=0, reason=reason)

    @staticmethod
    def from_outcomes(key: EvaluationKey, outcomes: ExampleOutcomes, *, has_accuracy: bool = True) -> Evaluation:
        """An evaluation with its mean loss and, if it has one, its accuracy; `diverged` if a loss is not finite."""
        counted = outcomes.linearized()
        n = len(counted.losses)
        if outcomes.num_not_finite:
            reason = f"the loss of {outcomes.num_not_finite} of {n} examples is not a finite number"
            return Evaluation(key, EvaluationState.DIVERGED, n=n, reason=reason, outcomes=outcomes)
        accuracy = counted.accuracy if has_accuracy else None
        return Evaluation(key, EvaluationState.MEASURED, n, counted.mean_loss, accuracy, outcomes=outcomes)


_ON_TEST = ("test_loss", "test_accuracy")


@dataclass(frozen=True)
class EpochRecord:
    """One epoch of training: mean losses and accuracies (fraction), and how long it took (seconds).

    Attributes:
        training_accuracy: None for a task without accuracy, as `validation_accuracy`.
        test_loss: Mean loss on the test split; None if the study does not ask for it, or it is not finite.
        test_accuracy: Accuracy on the test split; None if the study does not ask for it.
    """

    epoch: int
    training_loss: float
    training_accuracy: float | None
    validation_loss: float
    validation_accuracy: float | None
    seconds: float
    test_loss: float | None = None
    test_accuracy: float | None = None

    @property
    def epoch_values_by_name(self) -> dict[str, float | None]:
        """The values of the epoch; those on the test split only where they exist."""
        return {name: value for name, value in asdict(self).items() if value is not None or name not in _ON_TEST}


FUSED_EPOCHS = "fused_epochs"
"""Provenance key: number of epochs that were trained as one program with those of other trials; absent without any."""

TRAINING_PEAK_MEMORY = "training_peak_memory"
"""Key of a checkpoint's provenance: largest number of bytes that tensors occupied on the GPU in training."""

EVALUATION_PEAK_MEMORY = "evaluation_peak_memory"
"""The same in the evaluation, with the probes."""

DRIFT = "drift"
"""Key of the StatisticDrift records in a checkpoint's provenance."""


GEOMETRY = "geometry"
"""Key of the LayerWeightNormAndCurvature records in a checkpoint's provenance."""


def provenance_without_layer_records(provenance: dict[str, Any]) -> dict[str, Any]:
    """The provenance of a checkpoint without the records of its layers, which are too long for lists."""
    return {name: value for name, value in provenance.items() if name not in (DRIFT, GEOMETRY)}


@dataclass(frozen=True)
class StatisticDrift:
    """Mini-batch statistics of a layer compared with a population estimate, in units of the layer's deviation.

    Attributes:
        layer: Name of the layer.
        statistic: The statistic.
        estimate: The population estimate.
        spread: Scatter of the mini-batches around the estimate; None if it is not a number.
        shift: Distance of the estimate from the `frozen` one; None if it is not a number.
    """

    layer: str
    statistic: str
    estimate: str
    spread: float | None
    shift: float | None


@dataclass(frozen=True)
class LayerWeightNormAndCurvature:
    """Geometry of a dense or convolution layer after an epoch; see `bln_search.evaluation.weight_norms_and_curvature`.

    Attributes:
        epoch: Epoch, counted from 1.
        layer: Name of the layer.
        weight_norm: Root mean square over the layer's units of the Euclidean norm of a unit's weights.
        effective_rate: Mean over the units of learning rate / squared norm of the weights: the rate at which the
            direction of the weights changes; None where the weights of a unit are zero.
        deviation: Root mean square of the deviations by which the following normalization layer divides; None without.
        curvature: Mean Fisher information over the directions of the weights.
        radial_curvature: Fisher information in the direction of the weights themselves; None where they are zero.
        gain_curvature: Mean Fisher information over the gains γ of the following normalization layer; None without.
    """

    epoch: int
    layer: str
    weight_norm: float
    effective_rate: float | None
    deviation: float | None
    curvature: float | None
    radial_curvature: float | None
    gain_curvature: float | None


@dataclass(frozen=True)
class EarlierEpochCheckpoint:
    """The checkpoint of a former epoch: file name in the checkpoint store, SHA-256 of its content."""

    epoch: int
    file: str
    sha256: str


@dataclass(frozen=True)
class ProbeResult:
    """A network under one configuration, measured besides the leaderboard.

    Attributes:
        kind: What was varied.
        epoch: Epoch of the weights; 0 for the checkpoint itself.
        key: Configuration, estimate, batch size and split.
        n: Number of examples.
        loss: Mean loss over the examples and all repetitions.
        accuracy: Mean accuracy (fraction) over the examples and all repetitions; None for a task without accuracy.
        deviation: Scatter of an example's loss over `reshuffled` or `skewed` mini-batches: root of the mean variance.
        flips: Fraction of examples whose predicted class differs from that in the order of the data; None for a task
            without classes.
    """

    kind: ProbeKind
    epoch: int
    key: EvaluationKey
    n: int
    loss: float
    accuracy: float | None
    deviation: float | None = None
    flips: float | None = None


@dataclass(frozen=True)
class CheckpointRecord:
    """A trained network in the checkpoint store.

    Attributes:
        file: File name in the store.
        sha256: SHA-256 of the file's content.
        epoch: Epoch of the weights.
        judged_under: Configuration that selected the epoch.
        validation_loss: Validation loss of the epoch (nats).
        provenance: What the weights depend on besides the specification.
        snapshots: Checkpoints of former epochs.
        id: Number of its row in the ledger; None before it is stored.
        trial_id: Number of its trial; None before it is stored.
        created_at: When it was stored; None before.
    """

    file: str
    sha256: str
    epoch: int
    judged_under: str
    validation_loss: float
    provenance: dict[str, Any]
    snapshots: tuple[EarlierEpochCheckpoint, ...] = ()
    id: int | None = field(default=None, compare=False)
    trial_id: int | None = field(default=None, compare=False)
    created_at: datetime | None = field(default=None, compare=False)
