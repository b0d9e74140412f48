"""What a trial under way tells its driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, Probe
from bln_search.core.states import FailureClass
from bln_search.specs.search import Objective
from bln_search.specs.trial import TrialSpec


class Phase(StrEnum):
    """Where a trial stands."""

    TRAINING = "training"
    POPULATION = "population"
    EVALUATION = "evaluation"


@dataclass(frozen=True)
class Task:
    """A trial to carry out under the attempt `token`; with a checkpoint it only needs evaluating.

    prunable: whether it waits after each epoch for a verdict. memory_limit: bytes of the largest activation of all
    configurations together in evaluation; None for the usual. measured: objectives to measure beyond losses.
    alone: it ran out of memory in training, and no other trial runs beside it now.
    """

    token: int
    trial: TrialSpec
    checkpoint: CheckpointRecord | None = None
    prunable: bool = False
    memory_limit: int | None = None
    measured: tuple[Objective, ...] = ()
    alone: bool = False


class Verdict(StrEnum):
    """What a driver says of a prunable trial after an epoch."""

    GO_ON = "go_on"
    STOP = "stop"


@dataclass(frozen=True)
class EpochDone:
    """An epoch ended."""

    record: EpochRecord


@dataclass(frozen=True)
class Progressed:
    """`done` of `total` steps of a phase are done (epochs of training, examples of evaluation)."""

    phase: Phase
    done: int
    total: int


@dataclass(frozen=True)
class TrainingDone:
    """The network is trained and on disk."""

    checkpoint: CheckpointRecord


@dataclass(frozen=True)
class TrainingDiverged:
    """The loss is not a finite number any more; that is the trial's result."""

    reason: str


@dataclass(frozen=True)
class TrainingPruned:
    """Training was stopped after an epoch by a verdict; that is the trial's result."""

    epoch: int


@dataclass(frozen=True)
class EvaluationDone:
    """Every planned evaluation, measured or with its reason, and every probe."""

    evaluations: tuple[Evaluation, ...]
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True)
class TaskFailed:
    """The attempt ended without a result.

    data_absent: the data are not on the machine that tried. process_spoilt: whatever the same process does next fails,
    too; it ends. process_lost: the process could not be started, or was lost through no fault of the trial: this is not
    counted as one of the trial's attempts.
    """

    failure: FailureClass
    reason: str
    disk_full: bool = False
    store_gone: bool = False
    data_absent: bool = False
    process_spoilt: bool = False
    process_lost: bool = False


Message = EpochDone | Progressed | TrainingDone | TrainingDiverged | TrainingPruned | EvaluationDone | TaskFailed
ENDS = (TrainingDiverged, TrainingPruned, EvaluationDone, TaskFailed)
"""Messages after which a task is over."""
