"""What messages of trials report to the ledger; those that are not written yet, and when to write them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bln_search.core.errors import StaleAttemptError
from bln_search.execution.messages import (
    EpochDone,
    EvaluationDone,
    Message,
    TaskFailed,
    TrainingDiverged,
    TrainingDone,
    TrainingPruned,
    TrainingResumed,
    TrialTask,
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
from bln_search.worker.trial_queue import RetryDecision

EPOCH_INTERVAL = 0.5
"""Seconds between two transactions that write nothing but finished epochs."""

_LONGEST_WAIT = 0.1
"""Seconds after a transaction in which results wait at most, for others to be written with them."""

_MAX_RESULTS = 64
"""Reports besides epochs that one transaction writes at most: results of a trial may have a megabyte."""

_MAX_REPORTS = 500
"""Reports that one transaction writes at most."""


@dataclass(frozen=True)
class BufferedMessage:
    """A message of a trial.

    Attributes:
        report: What it reports to the ledger; None for nothing.
        is_shown: Whether a person has seen it already.
    """

    task: TrialTask
    message: Message
    report: AttemptReport | None
    is_shown: bool = False

    @property
    def is_more_than_epochs(self) -> bool:
        """Whether its report is more than epochs."""
        return self.report is not None and not isinstance(self.report, EpochsReport)

    @property
    def has_streams(self) -> bool:
        """Whether it reports streams."""
        return isinstance(self.report, EvaluationReport) and bool(self.report.streams)


class MessageBuffer:
    """Keeps messages in their order until they are written, many in one transaction.

    Results are written at the next opportunity, unless a transaction has just ended: they then wait for as long as it
    took, so that a slow database gets larger transactions. Epochs alone are written every `EPOCH_INTERVAL` seconds.

    Args:
        record_attempt_reports: Writes reports in one transaction; raises StaleAttemptError where an attempt has ended.
        on_written: Called with each message after its report was written.
    """

    def __init__(
        self,
        record_attempt_reports: Callable[[Sequence[AttemptReport]], None],
        on_written: Callable[[BufferedMessage], None],
    ) -> None:
        self._record_reports, self._on_written = record_attempt_reports, on_written
        self._messages: list[BufferedMessage] = []
        self._num_results = 0
        self._written_at = time.monotonic()
        self._write_seconds = 0.0

    def __bool__(self) -> bool:
        """Whether a message is not written yet."""
        return bool(self._messages)

    @property
    def has_reports_besides_epochs(self) -> bool:
        """Whether a result is not written yet."""
        return self._num_results > 0

    def add(self, message: BufferedMessage) -> None:
        """Append a message; writes where the buffer is full, and after streams."""
        self._messages.append(message)
        self._num_results += message.is_more_than_epochs
        is_full = self._num_results >= _MAX_RESULTS or len(self._messages) >= _MAX_REPORTS
        if is_full or message.has_streams:  # outcomes of streams may have many megabytes
            self.write()

    def write_if_due(self) -> None:
        """Write every message if it is time to."""
        wait = min(self._write_seconds, _LONGEST_WAIT) if self.has_reports_besides_epochs else EPOCH_INTERVAL
        if time.monotonic() - self._written_at >= wait:
            self.write()

    def write(self) -> None:
        """Write every message.

        Raises:
            StaleAttemptError: An attempt no longer runs; the reports of the others are written.
        """
        start = time.monotonic()
        try:
            self._write_first(len(self._messages))
        except StaleAttemptError:
            self._write_one_by_one()
        finally:
            self._written_at = time.monotonic()
            self._write_seconds = self._written_at - start

    def _write_one_by_one(self) -> None:
        """Write what is not refused; what follows an error of another kind is kept."""
        stale: StaleAttemptError | None = None
        for _ in range(len(self._messages)):
            try:
                self._write_first(1)
            except StaleAttemptError as error:
                self._remove_first(1)
                stale = stale or error
        if stale is not None:
            raise stale

    def _write_first(self, count: int) -> None:
        """Write the first messages in one transaction; they are kept if it fails."""
        messages = self._messages[:count]
        self._record_reports([message.report for message in messages if message.report is not None])
        self._remove_first(count)
        for message in messages:
            self._on_written(message)

    def _remove_first(self, count: int) -> None:
        self._num_results -= sum(message.is_more_than_epochs for message in self._messages[:count])
        del self._messages[:count]


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
        case EvaluationDone(evaluations, probes, peak_memory, streams):
            report = EvaluationReport(token, evaluations, probes, peak_memory, streams)
        case TrainingDiverged(reason):
            report = DivergenceReport(token, reason)
        case TrainingPruned(epoch):
            report = PruningReport(token, epoch)
        case TaskFailed(failure):
            decision = decide_retry(message)
            report = FailureReport(token, failure, decision.reason, decision.again)
    return report
