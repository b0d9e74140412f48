"""The ledger: one object through which everything is written down and read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.orm import Session

from bln_search.core.errors import StaleAttemptError, StudyBusyError, StudyLostError, UnknownStudyError
from bln_search.core.records import CheckpointRecord, EpochRecord, Evaluation
from bln_search.core.states import ENDED, AttemptState, FailureClass, Request, StudyState, TrialState, check_transition
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec
from bln_search.storage.engine import make_engine, reading, writing
from bln_search.storage.events import append_event, append_events
from bln_search.storage.migration import migrate
from bln_search.storage.packing import pack
from bln_search.storage.queries import OpenTrial, StudySummary, open_trials, study_row, summaries, summarize
from bln_search.storage.rows import new_checkpoint, new_evaluation, new_trials
from bln_search.storage.standing import accept_study, move_study
from bln_search.storage.tables import AttemptRow, CheckpointRow, OutcomesRow, StudyRow, TrialRow

_OPEN = (StudyState.ACCEPTED, StudyState.RUNNING)

LEASE = timedelta(seconds=30)
"""How long an attempt may stay silent before another may take its trial."""


def open_ledger(url: str) -> Ledger:
    """The ledger in the database at `url`, its tables created or brought up to date first."""
    engine = make_engine(url)
    try:
        migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return Ledger(engine)


class Ledger:
    """Studies, trials, attempts, checkpoints, evaluations, outcomes and events in one database."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.engine = engine
        self.clock = clock

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def accept(self, study: StudySpec) -> int:
        """Write the study and its trials down, all or nothing; the same study again gives the same id."""
        with writing(self.engine) as session:
            return accept_study(session, study, self.clock())[0]

    def add_point(self, study_id: int, trials: Sequence[TrialSpec]) -> list[OpenTrial] | None:
        """Write down the trials of a point just suggested by a sampler; None where one of them is there already."""
        with writing(self.engine) as session:
            session.get_one(StudyRow, study_id, with_for_update=True)
            keys = [trial.key for trial in trials]
            if session.scalar(
                select(TrialRow.id).where(TrialRow.study_id == study_id, TrialRow.key.in_(keys)).limit(1)
            ):
                return None
            position = session.scalar(select(func.count()).where(TrialRow.study_id == study_id)) or 0
            rows = new_trials(trials, study_id, position=position)
            session.add_all(rows)
            session.flush()
            data = {"parameters": trials[0].parameters, "arm": trials[0].arm.label}
            append_event(session, study_id, self.clock(), "point_added", data)
            return [OpenTrial(row.id, trial, None) for row, trial in zip(rows, trials, strict=True)]

    def study(self, study_id: int) -> StudySummary:
        """The study of that id."""
        with reading(self.engine) as session:
            return summarize(session, session.get_one(StudyRow, study_id))

    def find_study(self, name_or_id: str) -> StudySummary:
        """The study of that id, or the newest one of that name. Raises UnknownStudyError."""
        with reading(self.engine) as session:
            row = study_row(session, name_or_id)
            if row is None:
                place = self.engine.url.render_as_string(hide_password=True)
                raise UnknownStudyError(
                    f"there is no study {name_or_id!r} in {place}; `bln-search list` names those there are"
                )
            return summarize(session, row)

    def studies(self) -> list[StudySummary]:
        """Every study, newest first."""
        with reading(self.engine) as session:
            return summaries(session)

    def open_trials(self, study_id: int) -> list[OpenTrial]:
        """The trials that still lack a result, in the order of the study, with their checkpoint where there is one."""
        with reading(self.engine) as session:
            return open_trials(session, study_id)

    def open_trial(self, trial_id: int) -> OpenTrial:
        """One trial that lacks a result."""
        with reading(self.engine) as session:
            return open_trials(session, session.get_one(TrialRow, trial_id).study_id, trial_id)[0]

    def start_study(self, study_id: int, is_alive: Callable[[str], bool], runner: str | None = None) -> None:
        """Mark the study as running, after taking back trials from attempts that are gone.

        is_alive: whether the worker of that name on this machine still lives. runner: who runs the study from now on.
        Raises StudyBusyError where another does, or where an attempt lives.
        """
        with writing(self.engine) as session:
            study = session.get_one(StudyRow, study_id, with_for_update=True)
            held = study.runner is not None and study.runner != runner and study.runner_until is not None
            if held and is_alive(str(study.runner)) and study.runner_until > self.clock():  # type: ignore[operator]
                raise StudyBusyError(f"this study is being run by {study.runner}: wait for it, or stop it first")
            study.runner, study.runner_until = runner, self.clock() + LEASE
            for attempt, trial in self._running(session, study_id):
                if is_alive(attempt.worker) and attempt.lease_until > self.clock():
                    raise StudyBusyError(
                        f"this study is being run by {attempt.worker} (trial {trial.arm} seed {trial.seed}, last heard "
                        f"of at {attempt.heartbeat_at:%H:%M:%S} UTC): wait for it, or stop it first"
                    )
            self.take_back(session, study_id)
            failed = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.state == TrialState.FAILED)
            for trial in session.scalars(failed).all():
                self._move_trial(session, trial, self._open_state(session, trial))
                trial.reason = None
            if study.state != StudyState.COMPLETE and not (study.owner and study.state == StudyState.RUNNING):
                move_study(session, study, StudyState.RUNNING, self.clock())
                study.request = study.reason = None

    def end_study(
        self, study_id: int, *, exhausted: bool = True, runner: str | None = None, reason: str | None = None
    ) -> StudyState:
        """Mark the study as complete where every trial has its result and no point is to come.

        Otherwise as what a person requested; as failed where nothing can be done without one; else as it was before: in
        the queue, or, without an owner, as interrupted. exhausted: whether the study's sampler has suggested all it was
        asked for. runner: who ends it. reason: why it cannot succeed.
        """
        with writing(self.engine) as session:
            study = session.get_one(StudyRow, study_id, with_for_update=True)
            if self._running(session, study_id) or (runner is not None and study.runner != runner):
                return StudyState(study.state)  # another process has taken over
            states = set(session.scalars(select(TrialRow.state).where(TrialRow.study_id == study_id).distinct()))
            left = states - {state.value for state in ENDED}
            state = _ended(study, left, exhausted=exhausted and reason is None)
            study.runner = study.runner_until = None
            study.request = None
            study.reason = reason or (self._first_failure(session, study_id) if state is StudyState.FAILED else None)
            if study.state != state:
                move_study(session, study, state, self.clock())
            return state

    @staticmethod
    def _first_failure(session: Session, study_id: int) -> str | None:
        failed = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.state == TrialState.FAILED)
        first = session.scalars(failed.order_by(TrialRow.position).limit(1)).first()
        return None if first is None else f"trial {first.arm} seed {first.seed}: {first.reason}"

    def fail_study(self, study_id: int, runner: str, reason: str) -> None:
        """It cannot succeed, whoever tries; nothing is left running. Also of one that `runner` has just handed back."""
        with writing(self.engine) as session:
            study = session.get(StudyRow, study_id, with_for_update=True)
            if study is None or study.runner not in (runner, None) or study.state not in _OPEN:
                return  # another process has taken over
            self.take_back(session, study_id)
            study.runner = study.runner_until = study.request = None
            study.reason = reason
            move_study(session, study, StudyState.FAILED, self.clock())

    def standing(self, study_id: int, runner: str) -> Request | None:
        """What a person wants of the study that `runner` runs. Raises StudyLostError where that runs it no more."""
        with reading(self.engine) as session:
            found = session.execute(select(StudyRow.runner, StudyRow.request).where(StudyRow.id == study_id)).first()
        if found is None or found.runner != runner:
            raise StudyLostError(
                f"study {study_id} is run by {found.runner or 'nobody'} now"
                if found
                else f"study {study_id} was deleted"
            )
        return Request(found.request) if found.request else None

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
            now = self.clock()
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
            if study_id is not None:
                mine = update(StudyRow).where(StudyRow.id == study_id, StudyRow.runner == runner)
                session.execute(mine.values(runner_until=self.clock() + LEASE))
            session.execute(
                update(AttemptRow)
                .where(AttemptRow.id.in_(tokens), AttemptRow.state == AttemptState.RUNNING)
                .values(heartbeat_at=self.clock(), lease_until=self.clock() + LEASE)
            )

    def record_epochs(self, token: int, records: Sequence[EpochRecord]) -> None:
        """Epochs of training ended; all of them in one transaction."""
        with writing(self.engine) as session:
            _, trial = self._live(session, token)
            data = [{"attempt": token, **asdict(record)} for record in records]
            append_events(session, trial.study_id, self.clock(), "epoch", data, trial.id)

    def record_checkpoint(self, token: int, record: CheckpointRecord) -> None:
        """The trial's network is trained and on disk; it takes the place of an earlier one that was lost."""
        with writing(self.engine) as session:
            _, trial = self._live(session, token)
            session.execute(delete(CheckpointRow).where(CheckpointRow.trial_id == trial.id))
            session.add(new_checkpoint(record, trial.id, self.clock()))
            append_event(session, trial.study_id, self.clock(), "trained", {"epoch": record.epoch}, trial.id)

    def record_evaluations(self, token: int, evaluations: tuple[Evaluation, ...]) -> None:
        """Every evaluation of the trial, all or nothing; the trial is finished."""
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
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED)
            self._move_trial(session, trial, TrialState.FINISHED)
            append_event(
                session, trial.study_id, self.clock(), "trial_finished", {"evaluations": len(evaluations)}, trial.id
            )

    def record_divergence(self, token: int, reason: str) -> None:
        """Training diverged; that is the trial's result."""
        with writing(self.engine) as session:
            attempt, trial = self._live(session, token)
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED, reason=reason)
            self._move_trial(session, trial, TrialState.DIVERGED)
            trial.reason = reason
            append_event(session, trial.study_id, self.clock(), "trial_diverged", {"reason": reason}, trial.id)

    def record_pruned(self, token: int, epoch: int) -> None:
        """The pruner stopped the trial after an epoch; that is its result."""
        with writing(self.engine) as session:
            attempt, trial = self._live(session, token)
            reason = f"stopped by the pruner after epoch {epoch}"
            self._end_attempt(session, attempt, AttemptState.SUCCEEDED, reason=reason)
            self._move_trial(session, trial, TrialState.PRUNED)
            trial.reason = reason
            append_event(session, trial.study_id, self.clock(), "trial_pruned", {"epoch": epoch}, trial.id)

    def record_failure(self, token: int, failure: FailureClass, reason: str, *, again: bool) -> None:
        """The attempt ended without a result; `again` leaves the trial open for another."""
        with writing(self.engine) as session:
            attempt, trial = self._live(session, token)
            self._end_attempt(session, attempt, AttemptState.FAILED, failure=failure, reason=reason)
            self._move_trial(session, trial, self._open_state(session, trial) if again else TrialState.FAILED)
            trial.reason = reason
            data = {"failure": failure.value, "reason": reason, "again": again}
            append_event(session, trial.study_id, self.clock(), "attempt_failed", data, trial.id)

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
                append_event(session, trial.study_id, self.clock(), "attempt_released", {}, trial.id)

    def take_back(self, session: Session, study_id: int) -> None:
        """Open the trials again whose attempts are gone; they are refused from now on."""
        for attempt, trial in self._running(session, study_id):
            self._end_attempt(session, attempt, AttemptState.LOST)
            self._move_trial(session, trial, self._open_state(session, trial))
            append_event(session, study_id, self.clock(), "attempt_lost", {"attempt": attempt.number}, trial.id)

    def delete_study(self, study_id: int) -> list[str]:
        """Remove the study with everything it holds; returns the checkpoint files that are free now.

        Raises StudyBusyError for one of an owner that runs, UnknownStudyError where there is none.
        """
        with writing(self.engine) as session:
            study = session.get(StudyRow, study_id, with_for_update=True)
            if study is None:
                raise UnknownStudyError(f"there is no study {study_id}")
            if study.owner and study.state == StudyState.RUNNING:
                raise StudyBusyError("the study is running: cancel it first, then delete it")
            files = select(CheckpointRow.file).join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            own = set(session.scalars(files.where(TrialRow.study_id == study_id)))
            others = set(session.scalars(files.where(TrialRow.study_id != study_id)))
            session.delete(study)
            return sorted(own - others)

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
        attempt.ended_at = self.clock()
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


def _ended(study: StudyRow, left: set[str], *, exhausted: bool) -> StudyState:
    """What a study is when nobody runs it any more; `left`: states of trials without a result."""
    if exhausted and not left:
        return StudyState.COMPLETE
    if study.request is not None:
        return {Request.PAUSE: StudyState.PAUSED, Request.CANCEL: StudyState.CANCELLED}[Request(study.request)]
    if exhausted and left == {TrialState.FAILED}:
        return StudyState.FAILED
    return StudyState.ACCEPTED if study.owner else StudyState.INTERRUPTED
