"""Messages from a running trial to the driver of its study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from bln_search.core.code_identity import CodeIdentity
from bln_search.core.errors import BlnSearchError
from bln_search.core.names import format_count_with_noun
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, ProbeResult
from bln_search.core.states import FailureClass
from bln_search.core.stream_outcomes import StreamRecord
from bln_search.specs.sections.search import Objective
from bln_search.specs.trial import TrialSpec


class TrialPhase(StrEnum):
    """The phase of a running trial."""

    TRAINING = "training"
    POPULATION = "population"
    EVALUATION = "evaluation"
    STREAMS = "streams"


@dataclass(frozen=True)
class TrialTask:
    """A trial to run.

    Attributes:
        token: Fencing token of the attempt.
        trial: What to run.
        checkpoint: The trained network, if the trial only needs its evaluation.
        prunable: The trial waits for a PruneDecision after each epoch.
        memory_limit: Bytes of the largest activation of all configurations together in the evaluation; None for the
            default.
        measured: Objectives to measure besides losses.
        alone: The trial ran out of memory in training, so no other trial runs beside it now.
        state_file: File in the checkpoint store for the state of the unfinished training; None to save none.
        informs_sampler: Its result informs the sampler that suggests the next points.
        code: The code of the study in the process that runs it; None where it is not compared.
    """

    token: int
    trial: TrialSpec
    checkpoint: CheckpointRecord | None = None
    prunable: bool = False
    memory_limit: int | None = None
    measured: tuple[Objective, ...] = ()
    alone: bool = False
    state_file: str | None = None
    informs_sampler: bool = False
    code: CodeIdentity | None = None


class PruneDecision(StrEnum):
    """The driver's answer to an epoch of a prunable trial."""

    CONTINUE = "continue"
    STOP = "stop"


@dataclass(frozen=True)
class TrainingResumed:
    """Training resumes from the state that an earlier attempt saved.

    records: The epochs before it, whose reports may have been lost with that attempt.
    """

    records: tuple[EpochRecord, ...]


@dataclass(frozen=True)
class TrainingStateSaved:
    """The state of the training was saved, for the first time in this attempt."""


@dataclass(frozen=True)
class EpochDone:
    """An epoch ended."""

    record: EpochRecord


@dataclass(frozen=True)
class PhaseProgress:
    """`done` of `total` steps of a phase are done: epochs of training, examples of evaluation."""

    phase: TrialPhase
    done: int
    total: int


@dataclass(frozen=True)
class TrainingDone:
    """The network is trained and its checkpoint is stored."""

    checkpoint: CheckpointRecord


@dataclass(frozen=True)
class TrainingDiverged:
    """The loss is not finite; this is the result of the trial."""

    reason: str


@dataclass(frozen=True)
class TrainingPruned:
    """The pruner stopped training after this epoch; this is the result of the trial."""

    epoch: int


@dataclass(frozen=True)
class EvaluationDone:
    """Every planned evaluation, measured or undefined with its reason, and every probe and stream.

    Attributes:
        peak_memory: Largest number of bytes that tensors occupied on the GPU meanwhile; None without a GPU.
        streams: Each arm of adaptation on each stream.
    """

    evaluations: tuple[Evaluation, ...]
    probes: tuple[ProbeResult, ...] = ()
    peak_memory: int | None = None
    streams: tuple[StreamRecord, ...] = ()


@dataclass(frozen=True)
class TaskFailed:
    """The attempt ended without a result.

    Attributes:
        failure: The class that decides whether the trial is retried.
        reason: What happened.
        machine_error: Kind of the error by which every further trial would fail on this machine too, so that the study
            is released; None for another failure.
        process_unusable: Every further task of the same process would fail too; the process is ended.
        process_lost: The process did not start, or ended through no fault of the trial. The attempt does not count.
        device_unusable: The process could not use its GPU, nor could another process.
    """

    failure: FailureClass
    reason: str
    machine_error: type[BlnSearchError] | None = None
    process_unusable: bool = False
    process_lost: bool = False
    device_unusable: bool = False


TrainingMessage = TrainingResumed | TrainingStateSaved | EpochDone | PhaseProgress | TrainingDone
Message = TrainingMessage | TrainingDiverged | TrainingPruned | EvaluationDone | TaskFailed
Send = Callable[[Message], None]
TERMINAL_MESSAGES = (TrainingDiverged, TrainingPruned, EvaluationDone, TaskFailed)
"""Messages that end a task."""


def describe_trial_end(message: Message) -> str | None:
    """How a message ends its trial, for a log; None if it does not end it."""
    match message:
        case EvaluationDone(evaluations):
            return f"finished, {format_count_with_noun(len(evaluations), 'evaluation', 'evaluations')}"
        case TrainingDiverged(reason):
            return f"diverged: {reason}"
        case TrainingPruned(epoch):
            return f"pruned after epoch {epoch}"
        case TaskFailed():
            return f"failed: {message.reason}"
    return None
