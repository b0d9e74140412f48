"""Runs one study: claims its open trials, gives them to an executor and records their reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.code_identity import CodeIdentity
from bln_search.core.errors import (
    BlnSearchError,
    SchemaChangedError,
)
from bln_search.core.process_identity import may_be_alive, name_of_this_process
from bln_search.core.states import StudyState
from bln_search.core.stop_signals import StopSignalInterrupt, call_stop_on_signal
from bln_search.execution.code_identity import compute_code_identity
from bln_search.execution.executors.base import Executor
from bln_search.execution.messages import (
    TERMINAL_MESSAGES,
    EpochDone,
    Message,
    PhaseProgress,
    PruneDecision,
    TaskFailed,
    TrainingDone,
    TrainingResumed,
    TrainingStateSaved,
    TrialTask,
)
from bln_search.specs.records import StudyRecord
from bln_search.specs.trial import TrialSpec
from bln_search.storage.leases import LEASE
from bln_search.storage.ledger import Ledger
from bln_search.worker.best_points import BestPointTrialCreator
from bln_search.worker.message_buffer import BufferedMessage, MessageBuffer, make_attempt_report
from bln_search.worker.sampled_points import StudyPointSampler
from bln_search.worker.seed_looks import SeedLooks
from bln_search.worker.study_code import check_code_of_study
from bln_search.worker.training_state_files import TrainingStateFiles
from bln_search.worker.trial_queue import RetryDecision, TrialQueue

_HEARTBEAT_INTERVAL = LEASE.total_seconds() / 2
"""Seconds between two heartbeats: after two missed ones the leases have expired."""

_REQUEST_INTERVAL = 0.5
"""Seconds between two checks for a request to pause or cancel."""


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
    checkpoints: CheckpointStore | None = None,
    *,
    accept_code_change: bool = False,
    on_look: Callable[[str], None] = lambda _: None,
) -> StudyState:
    """Run the open trials of a study.

    A stop signal (see `STOP_SIGNALS`) and a request to pause or cancel the study release the running trials and end the
    run.

    Args:
        ledger: Ledger with the study.
        study_id: The study.
        executor: Executor of the trials.
        watcher: Shows the progress.
        should_stop: Whether the caller was asked to stop.
        find_disk_problem: Why no trial may start because disk space is low; None where there is enough. Running trials
            finish, then the study is released.
        checkpoints: Store for the states of unfinished trainings, from which later attempts resume; None to save none.
        accept_code_change: Record changed code of plugins as accepted instead of raising an error.
        on_look: Called with a line about what is still open after each look at a study that adds seeds until it is
            decided.

    Returns:
        The state of the study after the run.

    Raises:
        KeyboardInterrupt: a signal, or `should_stop`, ended the run before the study was complete.
        StudyBusyError: another process runs the study.
        StudyLeaseLostError: another process claimed the study meanwhile.
        StorageFullError: the disk is full.
        CodeChangedError: the code of a plugin is not that of the results of the study, or changed meanwhile.
    """
    study = ledger.studies.get(study_id)
    code = compute_code_identity(study.spec)
    check_code_of_study(ledger, study, code, accept_change=accept_code_change)
    if study.state is StudyState.COMPLETE:
        watcher.on_run_start(0)
        return StudyState.COMPLETE
    ledger.studies.lease_and_start(study_id, may_be_alive, name_of_this_process())
    states = TrainingStateFiles(checkpoints, study_id)
    run = _StudyRun(ledger, study, code, watcher, should_stop, find_disk_problem, states, on_look)
    try:
        with call_stop_on_signal(lambda: run.stop_signal is not None, run.request_stop):
            trials = run.load_and_count_open_trials(executor)
            if trials:
                check_code_of_study(ledger, ledger.studies.get(study_id), code, adds_results=True)
            executor.run(run.claim_next_task, run.buffer_message_and_decide_pruning, run.on_tick, trials)
        run.write_messages_and_release_attempts()
    except _StopRequested:
        run.write_messages_and_release_attempts(is_aborted=True)
    except SchemaChangedError:
        raise  # nothing may be written any more; the leases expire
    except BaseException:
        with suppress(BlnSearchError):  # the first error is the one to report
            run.write_messages_and_release_attempts(is_aborted=True)
            run.finish()
        raise
    finally:
        run.close_samplers()
    state = run.finish()
    if state is StudyState.CANCELLED and checkpoints is not None:
        ledger.garbage.remove_training_states(study_id, checkpoints)
    if run.stop_signal is not None and state is not StudyState.COMPLETE:
        raise StopSignalInterrupt(run.stop_signal)
    return state


class _StopRequested(BaseException):
    """A person requested to pause or cancel the study. A BaseException, so that no executor handles it."""


class _StudyRun:
    """Claims trials, and records their messages."""

    def __init__(
        self,
        ledger: Ledger,
        study: StudyRecord,
        code: CodeIdentity,
        watcher: RunWatcher,
        should_stop: Callable[[], bool],
        find_disk_problem: Callable[[], str | None],
        states: TrainingStateFiles,
        on_look: Callable[[str], None],
    ) -> None:
        self.states = states
        self.seed_looks = SeedLooks(ledger, study, on_look)
        self.ledger, self.study, self.code, self.watcher = ledger, study, code, watcher
        self.should_stop, self.find_disk_problem = should_stop, find_disk_problem
        self.worker = name_of_this_process()
        self.points: StudyPointSampler | None = None
        self.best_points: BestPointTrialCreator | None = None
        self.queue = TrialQueue(self._claim_trials)
        self.messages = MessageBuffer(ledger.attempts.record_attempt_reports, self._on_message_written)
        self.alone_token: int | None = None
        self.evaluating: set[int] = set()
        self.retries: dict[int, RetryDecision] = {}
        self.trial_by_token: dict[int, int] = {}
        self.num_ended_unwritten = 0
        self.request_checked_at = self.heartbeat_at = time.monotonic()
        self.stop_signal: int | None = None
        self.is_aborted = False

    def request_stop(self, number: int) -> None:
        self.stop_signal = number

    def on_tick(self, tokens: list[int]) -> None:  # noqa: ARG002 - this run knows its attempts
        """Called between two steps of the executor: stop on request, write messages, send heartbeats."""
        self.queue.note_no_more_trials_can_start()
        if self.stop_signal is not None:
            raise StopSignalInterrupt(self.stop_signal)
        if self.should_stop():
            raise KeyboardInterrupt
        self._send_heartbeats_if_due()
        self.messages.write_if_due()
        now = time.monotonic()
        if now - self.request_checked_at >= _REQUEST_INTERVAL:
            self.request_checked_at = now
            if self.ledger.studies.find_stop_request(self.study.id, self.worker) is not None:
                raise _StopRequested

    def _send_heartbeats_if_due(self) -> None:
        """Renew the leases of the study and of every attempt; called before anything that may take long."""
        now = time.monotonic()
        if now - self.heartbeat_at >= _HEARTBEAT_INTERVAL:
            self.heartbeat_at = now
            self.ledger.attempts.record_heartbeats(list(self.trial_by_token), self.study.id, self.worker)

    def write_messages_and_release_attempts(self, *, is_aborted: bool = False) -> None:
        """Write the messages that are left, then release the attempts that still run or never started."""
        self.is_aborted = is_aborted
        try:
            self.messages.write()
        finally:
            self.ledger.attempts.release_attempts(list(self.trial_by_token))

    def close_samplers(self) -> None:
        if self.points is not None:
            self.points.close()

    def load_and_count_open_trials(self, executor: Executor) -> int:
        """Find the open trials for `executor`; returns their number, with those of points that are added later."""
        spec = self.study.spec
        self.points = StudyPointSampler(self.ledger, self.study)
        self.best_points = BestPointTrialCreator(self.ledger, self.study, self.points.has_all_points_of_arm)
        open_ids = self.ledger.trials.list_claimable_trial_ids(self.study.id, self.seed_looks.released_seeds)
        sampled_later = max(0, spec.num_sampled_points - sum(self.points.counts.values())) * len(spec.seeds_per_point)
        later = sampled_later + self.best_points.num_arms_without_best_point * len(spec.all_seeds)
        trials = len(self.ledger.trials.list_claimable_trial_ids(self.study.id)) + later
        self.queue = TrialQueue(
            self._claim_trials,
            open_ids,
            lambda ids: self.ledger.trials.load_trials(self.study.id, ids),
            lambda: executor.num_parallel_trials(trials),
        )
        self.watcher.on_run_start(trials)
        return trials

    @property
    def has_no_further_points(self) -> bool:
        if self.points is None or self.best_points is None:
            return False
        return self.points.is_exhausted and self.best_points.is_exhausted

    def finish(self) -> StudyState:
        return self.ledger.studies.finish_run(
            self.study.id,
            exhausted=self.has_no_further_points,
            blocked=self.seed_looks.is_blocked,
            runner=self.worker,
        )

    def claim_next_task(self) -> TrialTask | None:
        """Claim the next trial: a waiting one, else one of a new point; None where there is none.

        A new point is one that a sampler suggests, else the best point of an arm whose search has ended. A look makes
        trials of further seeds wait. None too while disk space is low, or while a trial runs that must run alone.
        """
        assert self.points is not None
        assert self.best_points is not None
        self._send_heartbeats_if_due()
        if self.find_disk_problem() is not None:
            return None
        is_alone_or_last = self.alone_token is not None or not self.queue
        if self.messages.has_reports_besides_epochs and is_alone_or_last:
            self.messages.write()  # what may start now depends on it
        if self.alone_token in self.trial_by_token:
            return None
        if not self.queue:
            self.queue.add_trials(
                self.points.add_next_point_trials()
                or self.best_points.add_next_best_point_trials()
                or self.seed_looks.release_next_trials()
            )
        running = len(self.trial_by_token) - self.queue.num_claimed - self.num_ended_unwritten
        taken = self.queue.take_next(running)
        if taken is None:
            return None
        token, trial, alone = taken
        self.alone_token = token if alone else None
        return TrialTask(
            token,
            trial.spec,
            trial.checkpoint,
            prunable=self.points.is_trial_prunable(trial.key),
            memory_limit=self.queue.activation_limit_of_trial(trial.id),
            measured=self.points.objectives,
            alone=alone,
            state_file=self.states.find_file_name(trial.key),
            informs_sampler=self.points.informs_sampler(trial.key),
            code=self.code,
        )

    def _claim_trials(self, trial_ids: Sequence[int]) -> Sequence[int]:
        tokens = self.ledger.attempts.claim_trials(trial_ids, self.worker)
        self.trial_by_token.update(zip(tokens, trial_ids, strict=True))
        return tokens

    def buffer_message_and_decide_pruning(self, task: TrialTask, message: Message) -> PruneDecision:
        """Buffer a message of a trial until it is written and shown; returns whether the pruner stops the trial.

        Raises the machine error of a failure, which releases the study: every further trial would fail here.
        """
        self._send_heartbeats_if_due()
        self.states.note_message(task, message)
        if isinstance(message, TrainingStateSaved):
            self.queue.note_progress(self.trial_by_token[task.token])
            return PruneDecision.CONTINUE
        if isinstance(message, TrainingResumed) and self.points is not None:
            self.points.report_earlier_epochs(task.trial.key, message.records)
        if isinstance(message, TaskFailed):
            if message.machine_error is not None:
                raise message.machine_error(message.reason)
        elif isinstance(message, TrainingDone):
            self.evaluating.add(task.token)
        report = make_attempt_report(task.token, message, lambda failure: self._decide_retry(task, failure))
        if isinstance(message, EpochDone | PhaseProgress) and not self.messages.has_reports_besides_epochs:
            self.watcher.on_message(task.trial, message)  # nothing that must be shown before is left
            buffered = None if report is None else BufferedMessage(task, message, report, is_shown=True)
        else:
            buffered = BufferedMessage(task, message, report)
        if isinstance(message, TERMINAL_MESSAGES):
            self.num_ended_unwritten += 1
            self.queue.note_end()
        if buffered is not None:
            self.messages.add(buffered)
        if not isinstance(message, EpochDone) or not task.prunable or self.points is None:
            return PruneDecision.CONTINUE
        is_last = message.record.epoch >= task.trial.epochs
        stop = self.points.should_prune(task.trial.key, message.record) and not is_last
        return PruneDecision.STOP if stop else PruneDecision.CONTINUE

    def _decide_retry(self, task: TrialTask, message: TaskFailed) -> RetryDecision:
        """Decide whether a failed trial waits for another attempt, which it does once its failure is written."""
        is_evaluating = task.checkpoint is not None or task.token in self.evaluating
        trial_id = self.trial_by_token[task.token]
        decision = self.queue.decide_retry(trial_id, task, message, is_evaluating=is_evaluating)
        self.retries[task.token] = decision
        return decision

    def _on_message_written(self, buffered: BufferedMessage) -> None:
        """Let a failed trial wait again, show the message, and tell the samplers of the end of a trial.

        After an error the message is only written: showing it could raise the next error.
        """
        task, message = buffered.task, buffered.message
        self.states.remove_after_training(task, message)
        is_end = isinstance(message, TERMINAL_MESSAGES)
        if is_end:
            self.num_ended_unwritten -= 1
            trial_id = self.trial_by_token.pop(task.token)
            self.evaluating.discard(task.token)
            decision = self.retries.pop(task.token, None)
            if decision is not None and decision.again:
                self.queue.add_trials([self.ledger.trials.get_trial(trial_id)], alone=decision.alone)
        if self.is_aborted:
            return
        if not buffered.is_shown:
            self.watcher.on_message(task.trial, message)
        if is_end and self.points is not None and self.best_points is not None:
            self.points.report_trial_end(task.trial.key)
            self.best_points.note_trial_end()
            self.seed_looks.note_trial_end()
