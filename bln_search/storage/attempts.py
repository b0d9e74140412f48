"""Attempts at trials: claimed, heard of, reported, ended. A report of one that runs no more is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.orm import Session

from bln_search.core.errors import StaleAttemptError, StudyBusyError
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation, Probe
from bln_search.core.states import ENDED, AttemptState, FailureClass, TrialState, check_transition
from bln_search.storage.clock import Clock, DatabaseClock, time_within
from bln_search.storage.engine import writing
from bln_search.storage.events import append_event, append_events
from bln_search.storage.packing import pack
from bln_search.storage.rows import new_checkpoint, new_evaluation, new_probe, new_snapshots
from bln_search.storage.tables import AttemptRow, CheckpointRow, OutcomesRow, ProbeRow, StudyRow, TrialRow

LEASE = timedelta(seconds=30)
"""How long an attempt may stay silent before another may take its trial."""


class Attempts:
    """The half of the ledger that those write to who train and evaluate."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        """clock: by which leases are counted and events dated; by default the database's."""
        self.engine = engine
        self.clock = clock or DatabaseClock(engine)

    def now(self, session: Session) -> datetime:
        """The time by the ledger's clock, within a transaction."""
        return time_within(self.clock, session)

    def claim(self, trial_id: int, worker: str) -> int:
        """Start an attempt at a trial; its token goes with every report. Raises StudyBusyError where it is taken."""
        with writing(self.engine) as session:
            trial = session.get_one(TrialRow, trial_id, with_for_update=True)
            if trial.state not in (TrialState.WAITING, TrialState.TRAINED):
                raise StudyBusyError(
                    f"trial {trial.arm} seed {trial.seed} is {trial.state}: another process is running this study; "
                    "wait for it, or stop it first"
                )
            self._move_trial(session, trial, TrialState.RUNNING)
            number = session.scalar(select(func.count()).where(AttemptRow.trial_id == trial_id)) or 0
            now = self.now(session)
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

    def heartbeat(self, tokens: list[int], study_id: int | None = None, runner: str | None = None) -> None:
        """Say that these attempts are alive, and who runs their study."""
        with writing(self.engine) as session:
            now = self.now(session)
            if study_id is not None:
                mine = update(StudyRow).where(StudyRow.id == study_id, StudyRow.runner == runner)
                session.execute(mine.values(runner_until=now + LEASE))
            session.execute(
                update(AttemptRow)
                .where(AttemptRow.id.in_(tokens), AttemptRow.state == AttemptState.RUNNING)
                .values(heartbeat_at=now, lease_until=now + LEASE)
            )

    def record_epochs(self, token: int, records: Sequence[EpochRecord]) -> None:
        """Epochs of training ended; all of them in one transaction."""
        with writing(self.engine) as session:
            _, trial = self._live(session, token)
            data = [{"attempt": token, **asdict(record)} for record in records]
            append_events(session, trial.study_id, self.now(session), "epoch", data, trial.id)

    def record_checkpoint(self, token: int, record: CheckpointRecord) -> None:
        """The trial's network is trained and on disk; it takes the place of an earlier one that was lost."""
        with writing(self.engine) as session:
            _, trial = self._live(session, token)
            session.execute(delete(CheckpointRow).where(CheckpointRow.trial_id == trial.id))
            now = self.now(session)
            row = new_checkpoint(record, trial.id, now)
            session.add(row)
            session.flush()
            session.add_all(new_snapshots(record, row.id))
            append_event(session, trial.study_id, now, "trained", {"epoch": record.epoch}, trial.id)

    def record_evaluations(self, token: int, evaluations: tuple[Evaluation, ...], probes: Sequence[Probe] = ()) -> None:
        """Every evaluation and probe of the trial, all or nothing; the trial is finished."""
        with writing(self.engine) as session:
            attempt, trial = self._live(session, token)
            checkpoint = session.scalars(select(CheckpointRow).where(CheckpointRow.trial_id == trial.id)).one()
            for evaluation in evaluations:
                row = new_evaluation(evaluation, checkpoint.id)
                session.add(row)
                if evaluation.outcomes is not None:
                    session.flush()
                    losses, correct = pack(evaluation.outcomes)
                    session.add(OutcomesRow(evaluation_id=row.id, losses=losses, correct=correct))
            session.execute(delete(ProbeRow).where(ProbeRow.checkpoint_id == checkpoint.id))
            session.add_all(new_probe(one, checkpoint.id) for one in probes)
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED)
            self._move_trial(session, trial, TrialState.FINISHED)
            data = {"evaluations": len(evaluations)}
            append_event(session, trial.study_id, self.now(session), "trial_finished", data, trial.id)

    def record_divergence(self, token: int, reason: str) -> None:
        """Training diverged; that is the trial's result."""
        with writing(self.engine) as session:
            attempt, trial = self._live(session, token)
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED, reason=reason)
            self._move_trial(session, trial, TrialState.DIVERGED)
            trial.reason = reason
            append_event(session, trial.study_id, self.now(session), "trial_diverged", {"reason": reason}, trial.id)

    def record_pruned(self, token: int, epoch: int) -> None:
        """The pruner stopped the trial after an epoch; that is its result."""
        with writing(self.engine) as session:
            attempt, trial = self._live(session, token)
            reason = f"stopped by the pruner after epoch {epoch}"
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED, reason=reason)
            self._move_trial(session, trial, TrialState.PRUNED)
            trial.reason = reason
            append_event(session, trial.study_id, self.now(session), "trial_pruned", {"epoch": epoch}, trial.id)

    def record_failure(self, token: int, failure: FailureClass, reason: str, *, again: bool) -> None:
        """The attempt ended without a result; `again` leaves the trial open for another."""
        with writing(self.engine) as session:
            attempt, trial = self._live(session, token)
            self._end_attempt(session, attempt, AttemptState.FAILED, failure=failure, reason=reason)
            self._move_trial(session, trial, self._open_state(session, trial) if again else TrialState.FAILED)
            trial.reason = reason
            data = {"failure": failure.value, "reason": reason, "again": again}
            append_event(session, trial.study_id, self.now(session), "attempt_failed", data, trial.id)

    def release(self, tokens: list[int]) -> None:
        """Give the trials of these attempts back: the run was stopped."""
        with writing(self.engine) as session:
            for token in tokens:
                try:
                    attempt, trial = self._live(session, token)
                except StaleAttemptError:
                    continue
                self._end_attempt(session, attempt, AttemptState.LOST, reason="the run was stopped")
                self._move_trial(session, trial, self._open_state(session, trial))
                append_event(session, trial.study_id, self.now(session), "attempt_released", {}, trial.id)

    def take_back(self, session: Session, study_id: int) -> None:
        """Open the trials again whose attempts are gone; they are refused from now on."""
        for attempt, trial in self._running(session, study_id):
            self._end_attempt(session, attempt, AttemptState.LOST)
            self._move_trial(session, trial, self._open_state(session, trial))
            append_event(session, study_id, self.now(session), "attempt_lost", {"attempt": attempt.number}, trial.id)

    def _live(self, session: Session, token: int) -> tuple[AttemptRow, TrialRow]:
        """The running attempt of this token and its trial. Raises StaleAttemptError where it runs no more."""
        attempt = session.get(AttemptRow, token, with_for_update=True)
        if attempt is None or attempt.state != AttemptState.RUNNING:
            state = "unknown" if attempt is None else attempt.state
            raise StaleAttemptError(f"attempt {token} is {state}: its report came too late and was refused")
        return attempt, session.get_one(TrialRow, attempt.trial_id)

    @staticmethod
    def _running(session: Session, study_id: int) -> list[tuple[AttemptRow, TrialRow]]:
        """Attempts of the study that are under way, with their trials."""
        found = session.execute(
            select(AttemptRow, TrialRow)
            .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
            .where(TrialRow.study_id == study_id, AttemptRow.state == AttemptState.RUNNING)
        )
        return [(attempt, trial) for attempt, trial in found]

    def _end_attempt(
        self,
        session: Session,
        attempt: AttemptRow,
        state: AttemptState,
        *,
        failure: FailureClass | None = None,
        reason: str | None = None,
    ) -> None:
        check_transition(AttemptState(attempt.state), state)
        attempt.state, attempt.failure, attempt.reason = state, failure, reason
        attempt.ended_at = self.now(session)
        session.flush()

    def _move_trial(self, session: Session, trial: TrialRow, state: TrialState) -> None:
        check_transition(TrialState(trial.state), state)
        trial.state = state
        session.flush()
        if state in ENDED:
            grown = {"results": StudyRow.results + 1, "losses": 0}
            session.execute(update(StudyRow).where(StudyRow.id == trial.study_id).values(grown))

    def _open_state(self, session: Session, trial: TrialRow) -> TrialState:
        trained = session.scalar(select(CheckpointRow.id).where(CheckpointRow.trial_id == trial.id))
        return TrialState.WAITING if trained is None else TrialState.TRAINED
