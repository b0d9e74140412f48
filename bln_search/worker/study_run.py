"""Runs one study: claims its open trials, gives them to an executor and records their reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from bln_search.core.errors import (
    BlnSearchError,
    CheckpointStoreError,
    DataUnavailableError,
    SchemaChangedError,
    StorageFullError,
)
from bln_search.core.records import EpochRecord
from bln_search.core.states import StudyState
from bln_search.execution.executors.base import Executor
from bln_search.execution.messages import (
    TERMINAL_MESSAGES,
    EpochDone,
    EvaluationDone,
    Message,
    PhaseProgress,
    PruneDecision,
    TaskFailed,
    TrainingDiverged,
    TrainingDone,
    TrainingPruned,
    TrialTask,
)
from bln_search.specs.records import StudyRecord
from bln_search.specs.trial import TrialSpec
from bln_search.storage.leases import LEASE
from bln_search.storage.ledger import Ledger
from bln_search.worker.best_points import BestPointTrials
from bln_search.worker.identity import may_be_alive, name_of_this_process
from bln_search.worker.sampled_points import StudyPointSampler
from bln_search.worker.stop_signals import call_stop_on_signal
from bln_search.worker.waiting_trials import WaitingTrials

_HEARTBEAT_INTERVAL = LEASE.total_seconds() / 2
"""Seconds between two heartbeats: after two missed ones the leases have expired."""

_REQUEST_INTERVAL = 0.5
"""Seconds between two checks for a request to pause or cancel."""

_EPOCH_INTERVAL = 0.5
"""Seconds between two transactions that record finished epochs."""


class RunWatcher(Protocol):
    """Shows the progress of a run."""

    def on_run_start(self, trials: int) -> None:
        """Called once with the number of open trials."""

    def on_message(self, trial: TrialSpec, message: Message) -> None:
        """Called for every message of a trial."""


def run_study(
    ledger: Ledger,
    study_id: int,
    executor: Executor,
    watcher: RunWatcher,
    should_stop: Callable[[], bool] = lambda: False,
    find_disk_problem: Callable[[], str | None] = lambda: None,
) -> StudyState:
    """Run the open trials of a study.

    Ctrl-C, SIGTERM, and a request to pause or cancel the study release the running trials and end the run.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        executor: Executor of the trials.
        watcher: Shows the progress.
        should_stop: Whether the caller was asked to stop.
        find_disk_problem: Why no trial may start because disk space is low; None where there is enough. Running trials
            finish, then the study is released.

    Returns:
        The state of the study after the run.

    Raises:
        KeyboardInterrupt: a signal, or `should_stop`, ended the run before the study was complete.
        StudyBusyError: another process runs the study.
        LeaseLostError: another process claimed the study meanwhile.
        StorageFullError: the disk is full.
    """
    study = ledger.studies.get(study_id)
    if study.state is StudyState.COMPLETE:
        watcher.on_run_start(0)
        return StudyState.COMPLETE
    ledger.studies.lease_and_start(study_id, may_be_alive, name_of_this_process())
    run = _StudyRun(ledger, study, watcher, should_stop, find_disk_problem)
    try:
        with call_stop_on_signal(lambda: run.stop_requested, run.request_stop):
            executor.run(
                run.claim_next_task, run.record_and_show_message, run.on_tick, run.load_and_count_open_trials()
            )
    except _StopRequested:
        ledger.attempts.release_attempts(run.attempt_tokens)
    except SchemaChangedError:
        raise  # nothing may be written any more; the leases expire
    except BaseException:
        with suppress(BlnSearchError):  # the first error is the one to report
            ledger.attempts.release_attempts(run.attempt_tokens)
            ledger.studies.finish_run(study_id, exhausted=run.is_exhausted, runner=run.worker)
        raise
    finally:
        run.close_samplers()
    state = ledger.studies.finish_run(study_id, exhausted=run.is_exhausted, runner=run.worker)
    if run.stop_requested and state is not StudyState.COMPLETE:
        raise KeyboardInterrupt
    return state


class _StopRequested(BaseException):
    """A person requested to pause or cancel the study. A BaseException, so that no executor handles it."""


class _StudyRun:
    """Claims trials, and records their messages."""

    def __init__(
        self,
        ledger: Ledger,
        study: StudyRecord,
        watcher: RunWatcher,
        should_stop: Callable[[], bool],
        find_disk_problem: Callable[[], str | None],
    ) -> None:
        self.ledger, self.study, self.watcher = ledger, study, watcher
        self.should_stop, self.find_disk_problem = should_stop, find_disk_problem
        self.worker = name_of_this_process()
        self.points: StudyPointSampler | None = None
        self.best_points: BestPointTrials | None = None
        self.waiting = WaitingTrials()
        self.alone_token: int | None = None
        self.evaluating: set[int] = set()
        self.trial_by_token: dict[int, int] = {}
        self.epochs: dict[int, list[EpochRecord]] = {}
        self.epochs_recorded_at = self.request_checked_at = self.heartbeat_at = time.monotonic()
        self.stop_requested = False

    def request_stop(self) -> None:
        """Stop at the next call of `on_tick`."""
        self.stop_requested = True

    def on_tick(self, tokens: list[int]) -> None:
        """Called between two steps of the executor: stop on request, record epochs, send heartbeats."""
        if self.stop_requested or self.should_stop():
            raise KeyboardInterrupt
        now = time.monotonic()
        if now - self.epochs_recorded_at >= _EPOCH_INTERVAL:
            self._record_finished_epochs()
        if now - self.request_checked_at >= _REQUEST_INTERVAL:
            self.request_checked_at = now
            if self.ledger.studies.find_stop_request(self.study.id, self.worker) is not None:
                raise _StopRequested
        if now - self.heartbeat_at >= _HEARTBEAT_INTERVAL:
            self.heartbeat_at = now
            self.ledger.attempts.record_heartbeats(tokens, self.study.id, self.worker)

    @property
    def attempt_tokens(self) -> list[int]:
        """Tokens of the running attempts."""
        return list(self.trial_by_token)

    def close_samplers(self) -> None:
        """Close the samplers that `load_and_count_open_trials` opened."""
        if self.points is not None:
            self.points.close()

    def load_and_count_open_trials(self) -> int:
        """Load the open trials; returns their number, with those of points that are added later."""
        spec = self.study.spec
        self.points = StudyPointSampler(self.ledger, self.study)
        self.best_points = BestPointTrials(self.ledger, self.study, self.points.has_all_points)
        self.waiting.add_trials(self.ledger.trials.list_open_trials(self.study.id))
        sampled_later = max(0, spec.num_sampled_points - sum(self.points.counts.values())) * len(spec.seeds_per_point)
        trials = len(self.waiting) + sampled_later + self.best_points.num_arms_without_best_point * len(spec.seeds)
        self.watcher.on_run_start(trials)
        return trials

    @property
    def is_exhausted(self) -> bool:
        """Whether no further point will be added."""
        if self.points is None or self.best_points is None:
            return False
        return self.points.is_exhausted and self.best_points.is_exhausted

    def claim_next_task(self) -> TrialTask | None:
        """Claim the next trial: a waiting one, else one of a new point; None where there is none.

        A new point is one that a sampler suggests, else the best point of an arm whose search has ended. None too while
        disk space is low, or while a trial runs that must run alone.
        """
        assert self.points is not None
        assert self.best_points is not None
        if self.find_disk_problem() is not None or self.alone_token in self.trial_by_token:
            return None
        if not self.waiting:
            self.waiting.add_trials(
                self.points.add_next_point_trials() or self.best_points.add_next_best_point_trials()
            )
        taken = self.waiting.take_next_trial(is_idle=not self.trial_by_token)
        if taken is None:
            return None
        trial, alone = taken
        token = self.ledger.attempts.claim_trial(trial.id, self.worker)
        self.alone_token = token if alone else None
        self.trial_by_token[token] = trial.id
        self.waiting.count_attempt(trial.id)
        return TrialTask(
            token,
            trial.spec,
            trial.checkpoint,
            prunable=self.points.is_trial_prunable(trial.key),
            memory_limit=self.waiting.activation_limit_of_trial(trial.id),
            measured=self.points.objectives,
            alone=alone,
        )

    def record_and_show_message(self, task: TrialTask, message: Message) -> PruneDecision:
        """Record a message of a trial, then show it; returns whether the pruner stops the trial."""
        self._record_message(task, message)
        self.watcher.on_message(task.trial, message)
        stop = False
        if self.points is not None and self.best_points is not None:
            if isinstance(message, TERMINAL_MESSAGES):
                self.points.report_trial_end(task.trial.key)
                self.best_points.note_trial_end()
            elif isinstance(message, EpochDone) and task.prunable:
                is_last = message.record.epoch >= task.trial.epochs
                stop = self.points.should_prune(task.trial.key, message.record) and not is_last
        return PruneDecision.STOP if stop else PruneDecision.CONTINUE

    def _record_message(self, task: TrialTask, message: Message) -> None:
        token = task.token
        if isinstance(message, EpochDone):
            self.epochs.setdefault(token, []).append(message.record)
            return
        if not isinstance(message, PhaseProgress):
            self._record_finished_epochs()
        match message:
            case TrainingDone(checkpoint):
                self.ledger.attempts.record_checkpoint(token, checkpoint)
                self.evaluating.add(token)
            case EvaluationDone(evaluations, probes, peak_memory):
                self.ledger.attempts.finish_trial(token, evaluations, probes, peak_memory)
                self.trial_by_token.pop(token)
            case TrainingDiverged(reason):
                self.ledger.attempts.record_divergence(token, reason)
                self.trial_by_token.pop(token)
            case TrainingPruned(epoch):
                self.ledger.attempts.record_pruning(token, epoch)
                self.trial_by_token.pop(token)
            case TaskFailed():
                self._record_failure(task, message)

    def _record_finished_epochs(self) -> None:
        """Record the epochs that finished since the last time, in one transaction for each trial."""
        self.epochs_recorded_at = time.monotonic()
        for token in list(self.epochs):
            self.ledger.attempts.record_epochs(token, self.epochs.pop(token))

    def _record_failure(self, task: TrialTask, message: TaskFailed) -> None:
        """Record a failed attempt, and let the trial wait for another where that may succeed.

        Raises StorageFullError, CheckpointStoreError or DataUnavailableError where the fault is of this machine.
        """
        _raise_error_of_machine_failure(message)
        trial_id = self.trial_by_token.pop(task.token)
        is_evaluating = task.checkpoint is not None or task.token in self.evaluating
        decision = self.waiting.decide_retry(trial_id, task, message, is_evaluating=is_evaluating)
        self.ledger.attempts.record_failure(task.token, message.failure, decision.reason, again=decision.again)
        if decision.again:
            self.waiting.add_trials([self.ledger.trials.get_trial(trial_id)], alone=decision.alone)


def _raise_error_of_machine_failure(message: TaskFailed) -> None:
    """Raise the error of a failure of this machine, which releases the study: every further trial would fail here.

    Raises:
        StorageFullError: The disk is full.
        CheckpointStoreError: The checkpoint store cannot be reached.
        DataUnavailableError: This machine has no data set.
    """
    if message.disk_full:
        raise StorageFullError(message.reason)
    if message.store_unavailable:
        raise CheckpointStoreError(message.reason)
    if message.data_missing:
        raise DataUnavailableError(message.reason)
