"""What training and evaluation hand over: plain records, no torch, no database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, ProbeKind, Split
from bln_search.core.states import EvaluationState


@dataclass(frozen=True)
class Outcomes:
    """Per-example results of one evaluation, in the order of the split.

    losses: float32 (float64 from a float64 network), shape (n,), nats. correct: bool, shape (n,).
    """

    losses: NDArray[np.float32] | NDArray[np.float64]
    correct: NDArray[np.bool_]


@dataclass(frozen=True, order=True)
class EvaluationKey:
    """What makes an evaluation of a checkpoint unique. `estimate` is None where no population value is read."""

    configuration: InferenceConfiguration
    estimate: PopulationEstimate | None
    batch_size: int
    split: Split


@dataclass(frozen=True)
class Evaluation:
    """One network under one configuration: mean loss (nats) and accuracy (fraction) over n examples."""

    key: EvaluationKey
    state: EvaluationState
    n: int
    loss: float | None = None
    accuracy: float | None = None
    reason: str | None = None
    outcomes: Outcomes | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def undefined(key: EvaluationKey, reason: str) -> Evaluation:
        """A cell for which a formula has no value."""
        return Evaluation(key, EvaluationState.UNDEFINED, n=0, reason=reason)

    @staticmethod
    def from_outcomes(key: EvaluationKey, outcomes: Outcomes) -> Evaluation:
        """Mean loss and accuracy; `diverged` where a loss is not finite."""
        n = len(outcomes.losses)
        bad = int(n - np.isfinite(outcomes.losses).sum())
        if bad:
            reason = f"the loss of {bad} of {n} examples is not a finite number"
            return Evaluation(key, EvaluationState.DIVERGED, n=n, reason=reason, outcomes=outcomes)
        loss = float(outcomes.losses.mean(dtype=np.float64))
        return Evaluation(key, EvaluationState.MEASURED, n, loss, float(outcomes.correct.mean()), outcomes=outcomes)


@dataclass(frozen=True)
class EpochRecord:
    """One epoch of training: mean losses (nats) and accuracies (fraction), and how long it took (seconds)."""

    epoch: int
    training_loss: float
    training_accuracy: float
    validation_loss: float
    validation_accuracy: float
    seconds: float


DRIFT = "drift"
"""Under which a checkpoint's provenance holds its Drift records."""


def without_drift(provenance: dict[str, Any]) -> dict[str, Any]:
    """Where a checkpoint comes from, without the figures of every layer, which lists would be too long with."""
    return {name: value for name, value in provenance.items() if name != DRIFT}


@dataclass(frozen=True)
class Drift:
    """Mini-batch statistics of a layer against a population estimate, in units of the layer's deviation.

    spread: how far mini-batches scatter. shift: how far the estimate is from the `frozen` one. None: not a number.
    """

    layer: str
    statistic: str
    estimate: str
    spread: float | None
    shift: float | None


@dataclass(frozen=True)
class Snapshot:
    """A network after an epoch on the way, on disk: file name under the checkpoint folder, SHA-256 of its content."""

    epoch: int
    file: str
    sha256: str


@dataclass(frozen=True)
class Probe:
    """A network under one configuration, measured beside the leaderboard; epoch: 0 for the checkpoint itself.

    loss (nats) and accuracy (fraction) are means over n examples and every repetition. Of `reshuffled` and `skewed`
    mini-batches: deviation, how far an example's loss scatters over them (root of the mean variance, nats), and flips,
    the share of examples whose prediction is another than in the order of the data.
    """

    kind: ProbeKind
    epoch: int
    key: EvaluationKey
    n: int
    loss: float
    accuracy: float
    deviation: float | None = None
    flips: float | None = None


@dataclass(frozen=True)
class CheckpointRecord:
    """A trained network on disk: file name under the checkpoint folder, SHA-256 of its content, where it came from."""

    file: str
    sha256: str
    epoch: int
    judged_under: str
    validation_loss: float
    provenance: dict[str, Any]
    snapshots: tuple[Snapshot, ...] = ()
