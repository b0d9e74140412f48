"""One study from its first unfinished trial to its last."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    DataAbsentError,
    SchemaChangedError,
    StorageFullError,
)
from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass, StudyState
from bln_search.evaluation.memory import MEMORY_LIMIT
from bln_search.execution.executors.base import Executor
from bln_search.execution.messages import (
    ENDS,
    EpochDone,
    EvaluationDone,
    Message,
    Progressed,
    Task,
    TaskFailed,
    TrainingDiverged,
    TrainingDone,
    TrainingPruned,
    Verdict,
)
from bln_search.specs.trial import TrialSpec
from bln_search.storage.attempts import LEASE
from bln_search.storage.ledger import Ledger
from bln_search.storage.queries import OpenTrial
from bln_search.worker.identity import is_alive, own_name
from bln_search.worker.points import Points

_BEAT = LEASE.total_seconds() / 2
"""Seconds between two signs of life: who misses two of them has lost its trials."""

_LOOK = 0.5
"""Seconds after which a request to pause or cancel is seen at the latest."""

_WRITE = 0.5
"""Seconds after which epochs are written down at the latest."""

_TOO_LARGE = (
    "in training, with no other trial of this run beside it: lower training.batch_size or the model's widths, or take "
    "a device with more memory"
)

_TRIES = 3
"""Attempts at a trial in one run when the machinery fails or memory runs out."""


class Watcher(Protocol):
    """Told what happens, for people to see."""

    def planned(self, trials: int) -> None:
        """So many trials are left to do."""

    def heard(self, trial: TrialSpec, message: Message) -> None:
        """A trial said something."""


def run_study(
    ledger: Ledger,
    study_id: int,
    executor: Executor,
    watcher: Watcher,
    stopping: Callable[[], bool] = lambda: False,
    lacking_room: Callable[[], str | None] = lambda: None,
) -> StudyState:
    """Carry out what is left of the study. Ctrl-C and SIGTERM give running trials back and raise KeyboardInterrupt.

    A request to pause or cancel it gives them back, too, and ends the run. Raises StudyBusyError where another process
    runs it, StudyLostError where another took it over meanwhile, StorageFullError where the disk is full. stopping: has
    whoever calls been asked to stop already? lacking_room: why no further trial is to be started now; those under way
    go on, and the study is handed back when they have ended.
    """
    if ledger.study(study_id).state is StudyState.COMPLETE:
        watcher.planned(0)
        return StudyState.COMPLETE
    ledger.start_study(study_id, is_alive, own_name())
    run = _Run(ledger, study_id, watcher, stopping, lacking_room)
    try:
        with _stop_requests(run):
            trials = run.prepare()
            executor.run(run.next_task, run.report, run.pulse, trials)
    except _RequestedEnd:
        ledger.release(run.live)
    except SchemaChangedError:
        raise  # nothing more is written; the leases run out
    except BaseException:
        with suppress(BlnSearchError):  # the first error is the one to report
            ledger.release(run.live)
            ledger.end_study(study_id, exhausted=run.exhausted, runner=run.worker)
        raise
    finally:
        run.close()
    state = ledger.end_study(study_id, exhausted=run.exhausted, runner=run.worker)
    if run.stop_requested and state is not StudyState.COMPLETE:
        raise KeyboardInterrupt
    return state


class _RequestedEnd(BaseException):
    """A person wants the study paused or cancelled: leaves whatever is under way."""


class _Run:
    """Chooses and claims trials, writes messages down, counts tries."""

    def __init__(
        self,
        ledger: Ledger,
        study_id: int,
        watcher: Watcher,
        stopping: Callable[[], bool],
        lacking_room: Callable[[], str | None],
    ) -> None:
        self.ledger = ledger
        self.stopping, self.lacking_room = stopping, lacking_room
        self.study_id = study_id
        self.watcher = watcher
        self.worker = own_name()
        self.points: Points | None = None
        self.waiting: deque[OpenTrial] = deque()
        self.alone: deque[OpenTrial] = deque()
        self.alone_token: int | None = None
        self.evaluating: set[int] = set()
        self.trial_of: dict[int, int] = {}
        self.tries: dict[int, int] = {}
        self.memory_limits: dict[int, int] = {}
        self.epochs: dict[int, list[EpochRecord]] = {}
        self.last_written = time.monotonic()
        self.last_look = time.monotonic()
        self.stop_requested = False
        self.last_beat = time.monotonic()

    def pulse(self, tokens: list[int]) -> None:
        """Between two steps: stop where that was asked for, and say now and then that the attempts are alive."""
        if self.stop_requested or self.stopping():
            raise KeyboardInterrupt
        if time.monotonic() - self.last_written >= _WRITE:
            self._write_epochs()
        if time.monotonic() - self.last_look >= _LOOK:
            self.last_look = time.monotonic()
            if self.ledger.standing(self.study_id, self.worker) is not None:
                raise _RequestedEnd
        if time.monotonic() - self.last_beat >= _BEAT:
            self.last_beat = time.monotonic()
            self.ledger.heartbeat(tokens, self.study_id, self.worker)

    @property
    def live(self) -> list[int]:
        """Tokens of the attempts under way."""
        return list(self.trial_of)

    def close(self) -> None:
        """Let go of what `prepare` opened."""
        if self.points is not None:
            self.points.close()

    def prepare(self) -> int:
        """Find out what is left to do; returns how many trials."""
        study = self.ledger.study(self.study_id).spec
        self.points = Points(self.ledger, self.study_id, study)
        self.waiting.extend(self.ledger.open_trials(self.study_id))
        to_come = max(0, study.sampled_points - sum(self.points.counts.values())) * len(study.seeds)
        self.watcher.planned(len(self.waiting) + to_come)
        return len(self.waiting) + to_come

    @property
    def exhausted(self) -> bool:
        """Will no sampler suggest another point?"""
        return self.points is not None and self.points.exhausted

    def next_task(self) -> Task | None:
        """The next trial, claimed: one that is written down, else one of a point that is suggested now.

        None where there is none, or no room for what it would write.
        """
        assert self.points is not None
        if self.lacking_room() is not None or self.alone_token in self.trial_of:
            return None
        if not self.waiting:
            self.waiting.extend(self.points.suggest())
        alone = not self.waiting
        trial = self._next_trial()
        if trial is None:
            return None
        token = self.ledger.claim(trial.id, self.worker)
        self.alone_token = token if alone else None
        self.trial_of[token] = trial.id
        self.tries[trial.id] = self.tries.get(trial.id, 0) + 1
        return Task(
            token,
            trial.spec,
            trial.checkpoint,
            prunable=self.points.prunable,
            memory_limit=self.memory_limits.get(trial.id),
            measured=self.points.measured,
            alone=alone,
        )

    def _next_trial(self) -> OpenTrial | None:
        """One that waits; else, once none is under way, one that ran out of memory in training beside others."""
        if self.waiting:
            return self.waiting.popleft()
        return self.alone.popleft() if self.alone and not self.trial_of else None

    def report(self, task: Task, message: Message) -> Verdict:
        """Write a message down, then show it."""
        self._write_down(task, message)
        self.watcher.heard(task.trial, message)
        stop = False
        if self.points is not None:
            if isinstance(message, ENDS):
                self.points.ended(task.trial.key)
            elif isinstance(message, EpochDone) and task.prunable:
                last = message.record.epoch >= task.trial.training.epochs
                stop = self.points.should_stop(task.trial.key, message.record) and not last
        return Verdict.STOP if stop else Verdict.GO_ON

    def _write_down(self, task: Task, message: Message) -> None:
        token = task.token
        if isinstance(message, EpochDone):
            self.epochs.setdefault(token, []).append(message.record)
            return
        if not isinstance(message, Progressed):
            self._write_epochs()
        match message:
            case TrainingDone(checkpoint):
                self.ledger.record_checkpoint(token, checkpoint)
                self.evaluating.add(token)
            case EvaluationDone(evaluations, probes):
                self.ledger.record_evaluations(token, evaluations, probes)
                self.trial_of.pop(token)
            case TrainingDiverged(reason):
                self.ledger.record_divergence(token, reason)
                self.trial_of.pop(token)
            case TrainingPruned(epoch):
                self.ledger.record_pruned(token, epoch)
                self.trial_of.pop(token)
            case TaskFailed():
                self._failed(task, message)

    def _write_epochs(self) -> None:
        """Write the epochs down that have ended since the last time: one transaction a trial, not one an epoch."""
        self.last_written = time.monotonic()
        for token in list(self.epochs):
            self.ledger.record_epochs(token, self.epochs.pop(token))

    def _failed(self, task: Task, message: TaskFailed) -> None:
        if message.disk_full:
            raise StorageFullError(message.reason)
        if message.store_gone:  # nothing is wrong with the study: it is handed back, with all that is finished
            raise CheckpointStoreError(message.reason)
        if message.data_absent:  # a machine that fails at once would be handed every trial there is
            raise DataAbsentError(message.reason)
        trial_id = self.trial_of.pop(task.token)
        self.tries[trial_id] -= message.process_lost
        again = message.failure is not FailureClass.USER_ERROR and self.tries[trial_id] < _TRIES
        waiting, reason = self.alone if task.alone else self.waiting, message.reason
        if message.failure is FailureClass.OUT_OF_MEMORY and self._evaluates(task):
            self.memory_limits[trial_id] = (task.memory_limit or MEMORY_LIMIT) // 2
        elif message.failure is FailureClass.OUT_OF_MEMORY:
            waiting, again = self.alone, again and not task.alone
            reason = f"{reason} ({_TOO_LARGE})" if task.alone else reason
        self.ledger.record_failure(task.token, message.failure, reason, again=again)
        if again:
            waiting.append(self.ledger.open_trial(trial_id))

    def _evaluates(self, task: Task) -> bool:
        """Was the task's network trained already? Evaluation can do with less memory, training cannot."""
        return task.checkpoint is not None or task.token in self.evaluating


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
        # the study may be complete all the same: who carries out one after another must hear of it, too
        if run.stop_requested and callable(before.get(signal.SIGTERM)):
            signal.raise_signal(signal.SIGTERM)
