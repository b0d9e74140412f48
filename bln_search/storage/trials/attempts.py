"""Attempts at trials. Only a running attempt may report: its id is a fencing token."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from bln_search.core.errors import StaleAttemptError, StudyBusyError
from bln_search.core.records import (
    EVALUATION_PEAK_MEMORY,
    CheckpointRecord,
    EpochRecord,
    Evaluation,
    ProbeResult,
)
from bln_search.core.states import ENDED, AttemptState, FailureClass, TrialState, check_state_transition
from bln_search.storage.database import Database
from bln_search.storage.events import append_event, append_events
from bln_search.storage.leases import LEASE
from bln_search.storage.results.outcome_codec import encode_outcomes
from bln_search.storage.row_factories import (
    make_checkpoint_row,
    make_evaluation_row,
    make_probe_row,
    make_snapshot_rows,
)
from bln_search.storage.tables import AttemptRow, CheckpointRow, OutcomesRow, ProbeRow, StudyRow, TrialRow


class AttemptRepository:
    """Claims trials and records what their attempts report, each report in one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def claim_trial(self, trial_id: int, worker: str) -> int:
        """Start an attempt at a trial.

        Args:
            trial_id: A trial that waits for training or evaluation.
            worker: Process that runs the attempt.

        Returns:
            The fencing token of the attempt, which every report needs.

        Raises:
            StudyBusyError: Another attempt has claimed the trial.
        """
        with self.database.write_session() as session:
            trial = session.get_one(TrialRow, trial_id, with_for_update=True)
            if trial.state not in (TrialState.WAITING, TrialState.TRAINED):
                raise StudyBusyError(
                    f"trial {trial.arm} seed {trial.seed} is {trial.state}: another process runs this study; "
                    "wait for it, or stop it first"
                )
            set_trial_state(session, trial, TrialState.RUNNING)
            number = session.scalar(select(func.count()).where(AttemptRow.trial_id == trial_id)) or 0
            now = self.database.now(session)
            attempt = AttemptRow(
                trial_id=trial_id,
                number=number + 1,
                worker=worker,
                state=AttemptState.RUNNING,
                heartbeat_at=now,
                lease_until=now + LEASE,
                started_at=now,
            )
            session.add(attempt)
            session.flush()
            append_event(session, trial.study_id, now, "attempt_started", {"attempt": number + 1}, trial_id)
            return attempt.id

    def record_heartbeats(self, tokens: list[int], study_id: int | None = None, runner: str | None = None) -> None:
        """Renew the leases of attempts, and that of `runner` on their study."""
        with self.database.write_session() as session:
            now = self.database.now(session)
            if study_id is not None:
                study = update(StudyRow).where(StudyRow.id == study_id, StudyRow.runner == runner)
                session.execute(study.values(runner_until=now + LEASE))
            session.execute(
                update(AttemptRow)
                .where(AttemptRow.id.in_(tokens), AttemptRow.state == AttemptState.RUNNING)
                .values(heartbeat_at=now, lease_until=now + LEASE)
            )

    def record_epochs(self, token: int, records: Sequence[EpochRecord]) -> None:
        """Record finished epochs of training."""
        with self.database.write_session() as session:
            attempt, trial = _get_running_attempt(session, token)
            data = [{"attempt": attempt.number, **record.metrics_and_seconds} for record in records]
            append_events(session, trial.study_id, self.database.now(session), "epoch", data, trial.id)

    def record_checkpoint(self, token: int, record: CheckpointRecord) -> None:
        """Record the trained network of the trial, in place of an earlier one whose file was lost."""
        with self.database.write_session() as session:
            _, trial = _get_running_attempt(session, token)
            session.execute(delete(CheckpointRow).where(CheckpointRow.trial_id == trial.id))
            now = self.database.now(session)
            row = make_checkpoint_row(record, trial.id, now)
            session.add(row)
            session.flush()
            session.add_all(make_snapshot_rows(record, row.id))
            append_event(session, trial.study_id, now, "trained", {"epoch": record.epoch}, trial.id)

    def finish_trial(
        self,
        token: int,
        evaluations: Sequence[Evaluation],
        probes: Sequence[ProbeResult] = (),
        peak_memory: int | None = None,
    ) -> None:
        """Record every evaluation and probe of the trial atomically; the trial is finished.

        peak_memory: Largest number of bytes on the GPU in the evaluation, for the checkpoint's provenance.
        """
        with self.database.write_session() as session:
            attempt, trial = _get_running_attempt(session, token)
            checkpoint = session.scalars(select(CheckpointRow).where(CheckpointRow.trial_id == trial.id)).one()
            for evaluation in evaluations:
                row = make_evaluation_row(evaluation, checkpoint.id)
                session.add(row)
                if evaluation.outcomes is not None:
                    session.flush()
                    losses, correct = encode_outcomes(evaluation.outcomes)
                    session.add(OutcomesRow(evaluation_id=row.id, losses=losses, correct=correct))
            session.execute(delete(ProbeRow).where(ProbeRow.checkpoint_id == checkpoint.id))
            session.add_all(make_probe_row(probe, checkpoint.id) for probe in probes)
            if peak_memory is not None:
                checkpoint.provenance = {**checkpoint.provenance, EVALUATION_PEAK_MEMORY: peak_memory}
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED)
            set_trial_state(session, trial, TrialState.FINISHED)
            data = {"evaluations": len(evaluations)}
            append_event(session, trial.study_id, self.database.now(session), "trial_finished", data, trial.id)

    def record_divergence(self, token: int, reason: str) -> None:
        """Record that training diverged, which is the trial's result."""
        with self.database.write_session() as session:
            attempt, trial = _get_running_attempt(session, token)
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED, reason=reason)
            set_trial_state(session, trial, TrialState.DIVERGED)
            trial.reason = reason
            now = self.database.now(session)
            append_event(session, trial.study_id, now, "trial_diverged", {"reason": reason}, trial.id)

    def record_pruning(self, token: int, epoch: int) -> None:
        """Record that the pruner stopped the trial after an epoch, which is the trial's result."""
        with self.database.write_session() as session:
            attempt, trial = _get_running_attempt(session, token)
            reason = f"stopped by the pruner after epoch {epoch}"
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED, reason=reason)
            set_trial_state(session, trial, TrialState.PRUNED)
            trial.reason = reason
            now = self.database.now(session)
            append_event(session, trial.study_id, now, "trial_pruned", {"epoch": epoch}, trial.id)

    def record_failure(self, token: int, failure: FailureClass, reason: str, *, again: bool) -> None:
        """Record that the attempt ended without a result.

        Args:
            token: Fencing token of the attempt.
            failure: The class of the failure.
            reason: Text for people.
            again: Whether another attempt may claim the trial; otherwise the trial has failed.
        """
        with self.database.write_session() as session:
            attempt, trial = _get_running_attempt(session, token)
            self._end_attempt(session, attempt, AttemptState.FAILED, failure=failure, reason=reason)
            set_trial_state(session, trial, choose_waiting_state(session, trial) if again else TrialState.FAILED)
            trial.reason = reason
            data = {"failure": failure.value, "reason": reason, "again": again}
            append_event(session, trial.study_id, self.database.now(session), "attempt_failed", data, trial.id)

    def release_attempts(self, tokens: list[int]) -> None:
        """End these attempts because the run stops; other attempts may claim their trials."""
        with self.database.write_session() as session:
            for token in tokens:
                try:
                    attempt, trial = _get_running_attempt(session, token)
                except StaleAttemptError:
                    continue
                self._end_attempt(session, attempt, AttemptState.LOST, reason="the run was stopped")
                set_trial_state(session, trial, choose_waiting_state(session, trial))
                append_event(session, trial.study_id, self.database.now(session), "attempt_released", {}, trial.id)

    def end_attempts_and_reopen_trials(self, session: Session, study_id: int) -> None:
        """End the running attempts of a study, so that their reports are rejected, and open their trials again."""
        for attempt, trial in list_running_attempts(session, study_id):
            self._end_attempt(session, attempt, AttemptState.LOST)
            set_trial_state(session, trial, choose_waiting_state(session, trial))
            data, now = {"attempt": attempt.number}, self.database.now(session)
            append_event(session, study_id, now, "attempt_lost", data, trial.id)

    def _end_attempt(
        self,
        session: Session,
        attempt: AttemptRow,
        state: AttemptState,
        *,
        failure: FailureClass | None = None,
        reason: str | None = None,
    ) -> None:
        check_state_transition(AttemptState(attempt.state), state)
        attempt.state, attempt.failure, attempt.reason = state, failure, reason
        attempt.ended_at = self.database.now(session)
        session.flush()


def list_running_attempts(session: Session, study_id: int) -> list[tuple[AttemptRow, TrialRow]]:
    """The running attempts of a study, with their trials."""
    rows = session.execute(
        select(AttemptRow, TrialRow)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .where(TrialRow.study_id == study_id, AttemptRow.state == AttemptState.RUNNING)
    )
    return [(attempt, trial) for attempt, trial in rows]


def _get_running_attempt(session: Session, token: int) -> tuple[AttemptRow, TrialRow]:
    """The running attempt of this token and its trial. Raises StaleAttemptError where it no longer runs."""
    attempt = session.get(AttemptRow, token, with_for_update=True)
    if attempt is None or attempt.state != AttemptState.RUNNING:
        state = "unknown" if attempt is None else attempt.state
        raise StaleAttemptError(f"attempt {token} is {state}: its report came too late and was rejected")
    return attempt, session.get_one(TrialRow, attempt.trial_id)


def set_trial_state(session: Session, trial: TrialRow, state: TrialState) -> None:
    """Change the state of a trial; a result is counted in its study. Raises StateTransitionError."""
    check_state_transition(TrialState(trial.state), state)
    trial.state = state
    session.flush()
    if state in ENDED:
        counters = {"results": StudyRow.results + 1, "losses": 0}
        session.execute(update(StudyRow).where(StudyRow.id == trial.study_id).values(counters))


def choose_waiting_state(session: Session, trial: TrialRow) -> TrialState:
    """The state in which a trial waits: for evaluation where it has a checkpoint, else for training."""
    checkpoint_id = session.scalar(select(CheckpointRow.id).where(CheckpointRow.trial_id == trial.id))
    return TrialState.WAITING if checkpoint_id is None else TrialState.TRAINED
