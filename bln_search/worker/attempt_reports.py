"""What the message of a trial reports to the ledger."""

from __future__ import annotations

from collections.abc import Callable

from bln_search.execution.messages import (
    EpochDone,
    EvaluationDone,
    Message,
    TaskFailed,
    TrainingDiverged,
    TrainingDone,
    TrainingPruned,
    TrainingResumed,
)
from bln_search.storage.trials.reports import (
    AttemptReport,
    CheckpointReport,
    DivergenceReport,
    EpochsReport,
    EvaluationReport,
    FailureReport,
    PruningReport,
    ResumptionReport,
)
from bln_search.worker.waiting_trials import RetryDecision


def make_attempt_report(
    token: int, message: Message, decide_retry: Callable[[TaskFailed], RetryDecision]
) -> AttemptReport | None:
    """The report of a message; None for progress, which is only shown.

    Args:
        token: Fencing token of the attempt.
        message: The message.
        decide_retry: Decides whether the trial of a failed attempt waits for another one.
    """
    report: AttemptReport | None = None
    match message:
        case TrainingResumed(records):
            report = ResumptionReport(token, records)
        case EpochDone(record):
            report = EpochsReport(token, [record])
        case TrainingDone(checkpoint):
            report = CheckpointReport(token, checkpoint)
        case EvaluationDone(evaluations, probes, peak_memory):
            report = EvaluationReport(token, evaluations, probes, peak_memory)
        case TrainingDiverged(reason):
            report = DivergenceReport(token, reason)
        case TrainingPruned(epoch):
            report = PruningReport(token, epoch)
        case TaskFailed(failure):
            decision = decide_retry(message)
            report = FailureReport(token, failure, decision.reason, decision.again)
    return report
