"""What an attempt at a trial reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, ProbeResult
from bln_search.core.states import AttemptState, FailureClass, TrialState

if TYPE_CHECKING:
    from bln_search.core.stream_outcomes import StreamRecord


@dataclass(frozen=True)
class EpochsReport:
    """Epochs of training ended. token: fencing token of the attempt, as in every report."""

    token: int
    records: Sequence[EpochRecord]


@dataclass(frozen=True)
class ResumptionReport:
    """Training resumes from the state that an earlier attempt saved. records: the epochs before it."""

    token: int
    records: Sequence[EpochRecord]


@dataclass(frozen=True)
class CheckpointReport:
    """The network is trained."""

    token: int
    checkpoint: CheckpointRecord


@dataclass(frozen=True)
class EvaluationReport:
    """The trial is finished with these evaluations, probes and streams.

    Attributes:
        peak_memory: Largest number of bytes on the GPU in the evaluation, for the checkpoint's provenance; None on CPU.
        streams: Each arm of adaptation on each stream.
    """

    token: int
    evaluations: Sequence[Evaluation]
    probes: Sequence[ProbeResult] = ()
    peak_memory: int | None = None
    streams: Sequence[StreamRecord] = ()


@dataclass(frozen=True)
class DivergenceReport:
    """Training diverged, which is the trial's result."""

    token: int
    reason: str


@dataclass(frozen=True)
class PruningReport:
    """The pruner stopped the trial after an epoch, which is the trial's result."""

    token: int
    epoch: int

    @property
    def reason(self) -> str:
        """Text for people."""
        return f"stopped by the pruner after epoch {self.epoch}"


@dataclass(frozen=True)
class FailureReport:
    """The attempt ended without a result.

    Attributes:
        failure: The class of the failure.
        reason: Text for people.
        again: Whether another attempt may claim the trial; otherwise the trial has failed.
    """

    token: int
    failure: FailureClass
    reason: str
    again: bool


EndReport = EvaluationReport | DivergenceReport | PruningReport | FailureReport
"""Reports that end the attempt."""

AttemptReport = EpochsReport | ResumptionReport | CheckpointReport | EndReport


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ends.

    Attributes:
        attempt_state: State of the attempt.
        trial_state: State of its trial; None for the one in which the trial waits for another attempt.
        failure: Class of the failure.
        reason: Why the attempt ended, and the new reason of the trial; None to leave that of the trial.
    """

    attempt_state: AttemptState
    trial_state: TrialState | None
    failure: FailureClass | None = None
    reason: str | None = None


def describe_end(report: EndReport) -> tuple[AttemptEnd, str, dict[str, Any]]:
    """How the attempt of a report ends; kind and data of the event."""
    match report:
        case EvaluationReport(evaluations=evaluations):
            end = AttemptEnd(AttemptState.SUCCEEDED, TrialState.FINISHED)
            return end, "trial_finished", {"evaluations": len(evaluations)}
        case DivergenceReport(reason=reason):
            end = AttemptEnd(AttemptState.SUCCEEDED, TrialState.DIVERGED, reason=reason)
            return end, "trial_diverged", {"reason": reason}
        case PruningReport(epoch=epoch):
            end = AttemptEnd(AttemptState.SUCCEEDED, TrialState.PRUNED, reason=report.reason)
            return end, "trial_pruned", {"epoch": epoch}
        case FailureReport(failure=failure, reason=reason, again=again):
            end = AttemptEnd(AttemptState.FAILED, None if again else TrialState.FAILED, failure, reason)
            return end, "attempt_failed", {"failure": failure.value, "reason": reason, "again": again}
