"""Attempts at trials. Only a running attempt may report: its id is a fencing token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from bln_search.core.errors import StudyBusyError
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, ProbeResult
from bln_search.core.states import AttemptState, FailureClass, TrialState
from bln_search.storage.bulk_insert import insert_rows_and_return_ids
from bln_search.storage.database import Database
from bln_search.storage.events import NewEvent, append_events
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AttemptRow, StudyRow, TrialRow
from bln_search.storage.trials.report_writer import write_reports
from bln_search.storage.trials.reports import (
    AttemptEnd,
    AttemptReport,
    CheckpointReport,
    DivergenceReport,
    EpochsReport,
    EvaluationReport,
    FailureReport,
    PruningReport,
)
from bln_search.storage.trials.running_attempts import (
    RunningAttempt,
    end_attempts_and_count_results_by_study,
    lock_still_running_attempts,
    split_into_chunks,
)

if TYPE_CHECKING:
    from bln_search.core.stream_outcomes import StreamRecord

_LOST = AttemptEnd(AttemptState.LOST, trial_state=None)
_STOPPED = AttemptEnd(AttemptState.LOST, trial_state=None, reason="the run was stopped")


class AttemptRepository:
    """Claims trials and records what their attempts report."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def claim_trial(self, trial_id: int, worker: str) -> int:
        """Start an attempt at a trial; `claim_trials` of one trial."""
        (token,) = self.claim_trials([trial_id], worker)
        return token

    def claim_trials(self, trial_ids: Sequence[int], worker: str) -> Sequence[int]:
        """Start an attempt at each trial, atomically.

        Args:
            trial_ids: Different trials of one study that wait for training or evaluation.
            worker: Process that runs the attempts.

        Returns:
            The fencing token of each attempt, which every report needs.

        Raises:
            StudyBusyError: Another attempt has claimed one of the trials.
        """
        with self.database.write_session() as session:
            study_id = _lock_waiting_trials(session, trial_ids)
            running = update(TrialRow).where(TrialRow.id.in_(trial_ids)).values(state=TrialState.RUNNING)
            session.connection().execute(running)
            counts = select(AttemptRow.trial_id, func.count()).where(AttemptRow.trial_id.in_(trial_ids))
            earlier = {row[0]: row[1] for row in session.execute(counts.group_by(AttemptRow.trial_id))}
            numbers = [earlier.get(trial_id, 0) + 1 for trial_id in trial_ids]
            now = self.database.now(session)
            state = {"worker": worker, "state": AttemptState.RUNNING}
            times = {"heartbeat_at": now, "lease_until": now + LEASE, "started_at": now}
            claimed = list(zip(trial_ids, numbers, strict=True))
            rows = [{"trial_id": trial_id, "number": number, **state, **times} for trial_id, number in claimed]
            tokens = insert_rows_and_return_ids(session, AttemptRow, rows)
            events = [NewEvent("attempt_started", {"attempt": number}, trial_id) for trial_id, number in claimed]
            append_events(session, study_id, now, events)
            return tokens

    def record_heartbeats(self, tokens: Sequence[int], study_id: int | None = None, runner: str | None = None) -> None:
        """Renew the leases of attempts, and that of `runner` on their study."""
        with self.database.write_session() as session:
            now = self.database.now(session)
            if study_id is not None:
                study = update(StudyRow).where(StudyRow.id == study_id, StudyRow.runner == runner)
                session.execute(study.values(runner_until=now + LEASE))
            lease = update(AttemptRow).values(heartbeat_at=now, lease_until=now + LEASE)
            for chunk in split_into_chunks(tokens):
                is_running = (AttemptRow.id.in_(chunk), AttemptRow.state == AttemptState.RUNNING)
                session.connection().execute(lease.where(*is_running))

    def record_attempt_reports(self, reports: Sequence[AttemptReport]) -> None:
        """Record reports of attempts in their order, in one transaction.

        Raises:
            StaleAttemptError: An attempt no longer runs; nothing is recorded.
        """
        if reports:
            with self.database.write_session() as session:
                write_reports(session, reports, self.database.now(session))

    def record_epochs(self, token: int, records: Sequence[EpochRecord]) -> None:
        """Record finished epochs of training."""
        self.record_attempt_reports([EpochsReport(token, records)])

    def record_checkpoint(self, token: int, record: CheckpointRecord) -> None:
        """Record the trained network of the trial, in place of an earlier one whose file was lost."""
        self.record_attempt_reports([CheckpointReport(token, record)])

    def finish_trial(
        self,
        token: int,
        evaluations: Sequence[Evaluation],
        probes: Sequence[ProbeResult] = (),
        peak_memory: int | None = None,
        streams: Sequence[StreamRecord] = (),
    ) -> None:
        """Record every result of the trial atomically; `EvaluationReport` describes the arguments."""
        self.record_attempt_reports([EvaluationReport(token, evaluations, probes, peak_memory, streams)])

    def record_divergence(self, token: int, reason: str) -> None:
        """Record that training diverged, which is the trial's result."""
        self.record_attempt_reports([DivergenceReport(token, reason)])

    def record_pruning(self, token: int, epoch: int) -> None:
        """Record that the pruner stopped the trial after an epoch, which is the trial's result."""
        self.record_attempt_reports([PruningReport(token, epoch)])

    def record_failure(self, token: int, failure: FailureClass, reason: str, *, again: bool) -> None:
        """Record that the attempt ended without a result; `FailureReport` describes the arguments."""
        self.record_attempt_reports([FailureReport(token, failure, reason, again)])

    def release_attempts(self, tokens: Sequence[int]) -> None:
        """End these attempts because the run stops; other attempts may claim their trials."""
        for chunk in split_into_chunks(tokens):
            with self.database.write_session() as session:
                attempts = list(lock_still_running_attempts(session, chunk).values())
                self._reopen_trials(session, attempts, _STOPPED, "attempt_released")

    def end_attempts_and_reopen_trials(self, session: Session, study_id: int) -> None:
        """End the running attempts of a study, so that their reports are rejected, and open their trials again."""
        running = select(AttemptRow.id).join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        of_study = running.where(TrialRow.study_id == study_id, AttemptRow.state == AttemptState.RUNNING)
        tokens = session.scalars(of_study.order_by(AttemptRow.id)).all()
        for chunk in split_into_chunks(tokens):
            attempts = list(lock_still_running_attempts(session, chunk).values())
            self._reopen_trials(session, attempts, _LOST, "attempt_lost")

    def _reopen_trials(self, session: Session, attempts: Sequence[RunningAttempt], end: AttemptEnd, event: str) -> None:
        """End attempts without a report, and let their trials wait again."""
        now = self.database.now(session)
        end_attempts_and_count_results_by_study(session, [(attempt, end) for attempt in attempts], now)
        by_study: dict[int, list[NewEvent]] = {}
        for attempt in attempts:
            data = {"attempt": attempt.number} if end is _LOST else {}
            by_study.setdefault(attempt.study_id, []).append(NewEvent(event, data, attempt.trial_id))
        for study_id, events in by_study.items():
            append_events(session, study_id, now, events)


def list_running_attempts(session: Session, study_id: int) -> list[tuple[AttemptRow, TrialRow]]:
    """The running attempts of a study, with their trials."""
    rows = session.execute(
        select(AttemptRow, TrialRow)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .where(TrialRow.study_id == study_id, AttemptRow.state == AttemptState.RUNNING)
    )
    return [(attempt, trial) for attempt, trial in rows]


def _lock_waiting_trials(session: Session, trial_ids: Sequence[int]) -> int:
    """Lock trials; returns the id of their study. Raises StudyBusyError where another attempt has claimed one."""
    columns = (TrialRow.study_id, TrialRow.arm, TrialRow.seed, TrialRow.state)
    locked = select(*columns).where(TrialRow.id.in_(trial_ids)).order_by(TrialRow.id).with_for_update()
    trials = session.execute(locked).all()
    for _, arm, seed, state in trials:
        if state not in (TrialState.WAITING, TrialState.TRAINED):
            raise StudyBusyError(
                f"trial {arm} seed {seed} is {state}: another process runs this study; wait for it, or stop it first"
            )
    (study_id,) = {study_id for study_id, *_ in trials}
    return study_id
