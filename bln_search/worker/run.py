"""One study from its first unfinished trial to its last."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from bln_search.core.errors import BlnSearchError, StorageFullError
from bln_search.core.states import FailureClass, StudyState
from bln_search.search.local import LocalExecutor
from bln_search.search.messages import (
    EpochDone,
    EvaluationDone,
    Message,
    Progressed,
    Task,
    TaskFailed,
    TrainingDiverged,
    TrainingDone,
)
from bln_search.specs.trial import TrialSpec
from bln_search.storage.ledger import Ledger
from bln_search.storage.queries import OpenTrial
from bln_search.worker.identity import is_alive, own_name

_BEAT = 5.0
"""Seconds between two signs of life."""

_TRIES = 3
"""Attempts at a trial in one run when the machinery fails."""


class Watcher(Protocol):
    """Told what happens, for people to see."""

    def planned(self, trials: list[TrialSpec]) -> None:
        """These trials are left to do."""

    def heard(self, trial: TrialSpec, message: Message) -> None:
        """A trial said something."""


def run_study(ledger: Ledger, study_id: int, executor: LocalExecutor, watcher: Watcher) -> StudyState:
    """Carry out what is left of the study. Ctrl-C and SIGTERM give running trials back and raise KeyboardInterrupt.

    Raises StudyBusyError where another process runs it, StorageFullError where the disk is full.
    """
    ledger.start_study(study_id, is_alive)
    run = _Run(ledger, watcher)
    try:
        with _stop_requests(run):
            left = ledger.open_trials(study_id)
            watcher.planned([trial.spec for trial in left])
            while left:
                executor.run([run.starter(trial) for trial in left], run.report, run.pulse)
                left = [trial for trial in ledger.open_trials(study_id) if run.tries.get(trial.id, 0) < _TRIES]
    except BaseException:
        with suppress(BlnSearchError):  # the first error is the one to report
            ledger.release(run.live)
            ledger.end_study(study_id)
        raise
    return ledger.end_study(study_id)


class _Run:
    """Claims trials, writes messages down, counts tries."""

    def __init__(self, ledger: Ledger, watcher: Watcher) -> None:
        self.ledger = ledger
        self.watcher = watcher
        self.worker = own_name()
        self.trial_of: dict[int, int] = {}
        self.tries: dict[int, int] = {}
        self.stop_requested = False
        self.last_beat = time.monotonic()

    def pulse(self, tokens: list[int]) -> None:
        """Between two steps: stop where that was asked for, and say now and then that the attempts are alive."""
        if self.stop_requested:
            raise KeyboardInterrupt
        if time.monotonic() - self.last_beat >= _BEAT:
            self.last_beat = time.monotonic()
            self.ledger.heartbeat(tokens)

    @property
    def live(self) -> list[int]:
        """Tokens of the attempts under way."""
        return list(self.trial_of)

    def starter(self, trial: OpenTrial) -> Callable[[], Task]:
        """Claims the trial when called."""

        def start() -> Task:
            token = self.ledger.claim(trial.id, self.worker)
            self.trial_of[token] = trial.id
            self.tries[trial.id] = self.tries.get(trial.id, 0) + 1
            return Task(token, trial.spec, trial.checkpoint)

        return start

    def report(self, task: Task, message: Message) -> None:
        """Write a message down, then show it."""
        token = task.token
        match message:
            case EpochDone(record):
                self.ledger.record_epoch(token, record)
            case TrainingDone(checkpoint):
                self.ledger.record_checkpoint(token, checkpoint)
            case EvaluationDone(evaluations):
                self.ledger.record_evaluations(token, evaluations)
                self.trial_of.pop(token)
            case TrainingDiverged(reason):
                self.ledger.record_divergence(token, reason)
                self.trial_of.pop(token)
            case TaskFailed():
                self._failed(token, message)
            case Progressed():
                pass
        self.watcher.heard(task.trial, message)

    def _failed(self, token: int, message: TaskFailed) -> None:
        if message.disk_full:
            raise StorageFullError(message.reason)
        trial_id = self.trial_of.pop(token)
        again = message.failure is FailureClass.INFRASTRUCTURE and self.tries[trial_id] < _TRIES
        self.ledger.record_failure(token, message.failure, message.reason, again=again)


@contextmanager
def _stop_requests(run: _Run) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the run between two steps, so that nothing is left half-written; a second one at once."""

    def stop(_signal: int, _frame: object) -> None:
        if run.stop_requested:
            raise KeyboardInterrupt
        run.stop_requested = True

    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # whoever started this process may not want it stopped
                before[number] = signal.signal(number, stop)
    except ValueError:  # not the main thread: whoever owns it handles signals
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
