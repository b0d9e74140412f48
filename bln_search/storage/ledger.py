"""The ledger: one object through which everything is written down and read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.core.errors import StudyBusyError, StudyLostError, UnknownStudyError
from bln_search.core.states import ENDED, Request, StudyState, TrialState
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import TrialSpec
from bln_search.storage.attempts import LEASE, Attempts
from bln_search.storage.engine import check_before_writing, make_engine, reading, writing
from bln_search.storage.events import append_event
from bln_search.storage.migration import check_revision, migrate
from bln_search.storage.queries import OpenTrial, StudySummary, open_trials, study_row, summaries, summarize
from bln_search.storage.rows import new_trials
from bln_search.storage.standing import accept_study, move_study
from bln_search.storage.tables import CheckpointRow, SnapshotRow, StudyRow, TrialRow

OPEN = (StudyState.ACCEPTED, StudyState.RUNNING)
"""A study in one of these waits for a worker, or has one."""


def open_ledger(url: str) -> Ledger:
    """The ledger in the database at `url`, its tables created or brought up to date first.

    Whatever writes over its engine raises SchemaChangedError, and writes nothing, once the database was upgraded to
    another version.
    """
    engine = make_engine(url)
    try:
        migrate(engine)
        check_before_writing(engine, check_revision)
    except BaseException:
        engine.dispose()
        raise
    return Ledger(engine)


class Ledger(Attempts):
    """Studies, trials, attempts, checkpoints, evaluations, outcomes and events in one database."""

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def accept(self, study: StudySpec) -> int:
        """Write the study and its trials down, all or nothing; the same study again gives the same id."""
        with writing(self.engine) as session:
            return accept_study(session, study, self.now(session))[0]

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
            append_event(session, study_id, self.now(session), "point_added", data)
            return [OpenTrial(row.id, trial, None) for row, trial in zip(rows, trials, strict=True)]

    def record_search_end(self, study_id: int, arm: str, reason: str) -> None:
        """The search of an arm has ended with fewer points than it was to have."""
        with writing(self.engine) as session:
            append_event(session, study_id, self.now(session), "search_ended", {"arm": arm, "reason": reason})

    def study(self, study_id: int) -> StudySummary:
        """The study of that id. Raises UnknownStudyError where there is none, or none any more."""
        with reading(self.engine) as session:
            row = session.get(StudyRow, study_id)
            if row is None:
                raise UnknownStudyError(f"there is no study {study_id}")
            return summarize(session, row)

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
            now = self.now(session)
            held = study.runner is not None and study.runner != runner and study.runner_until is not None
            if held and is_alive(str(study.runner)) and study.runner_until > now:  # type: ignore[operator]
                raise StudyBusyError(f"this study is being run by {study.runner}: wait for it, or stop it first")
            study.runner, study.runner_until = runner, now + LEASE
            for attempt, trial in self._running(session, study_id):
                if is_alive(attempt.worker) and attempt.lease_until > now:
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
                move_study(session, study, StudyState.RUNNING, now)
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
                move_study(session, study, state, self.now(session))
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
            if study is None or study.runner not in (runner, None) or study.state not in OPEN:
                return  # another process has taken over
            self.take_back(session, study_id)
            study.runner = study.runner_until = study.request = None
            study.reason = reason
            move_study(session, study, StudyState.FAILED, self.now(session))

    def check_schema(self) -> None:
        """Raise SchemaChangedError where the database was upgraded since it was opened."""
        with reading(self.engine) as session:
            check_revision(session)

    def standing(self, study_id: int, runner: str) -> Request | None:
        """What a person wants of the study that `runner` runs.

        Raises StudyLostError where that runs it no more, SchemaChangedError where the database was upgraded meanwhile.
        """
        with reading(self.engine) as session:
            check_revision(session)
            found = session.execute(select(StudyRow.runner, StudyRow.request).where(StudyRow.id == study_id)).first()
        if found is None or found.runner != runner:
            raise StudyLostError(
                f"study {study_id} is run by {found.runner or 'nobody'} now"
                if found
                else f"study {study_id} was deleted"
            )
        return Request(found.request) if found.request else None

    def delete_study(self, study_id: int) -> list[str]:
        """Remove the study with everything it holds; returns the checkpoint files that are free now.

        Raises StudyBusyError for one that runs, as far as a command that was killed can be told from one at work,
        UnknownStudyError where there is none.
        """
        with writing(self.engine) as session:
            study = session.get(StudyRow, study_id, with_for_update=True)
            if study is None:
                raise UnknownStudyError(f"there is no study {study_id}")
            running = study.state == StudyState.RUNNING
            if running and (study.owner or (study.runner_until is not None and study.runner_until > self.now(session))):
                raise StudyBusyError("the study is running: cancel it, or stop its command, and delete it then")
            files = select(CheckpointRow.file).join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            on_the_way = select(SnapshotRow.file).join(CheckpointRow, CheckpointRow.id == SnapshotRow.checkpoint_id)
            on_the_way = on_the_way.join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            own, others = (
                {file for query in (files, on_the_way) for file in session.scalars(query.where(whose))}
                for whose in (TrialRow.study_id == study_id, TrialRow.study_id != study_id)
            )
            session.delete(study)
            return sorted(own - others)


def _ended(study: StudyRow, left: set[str], *, exhausted: bool) -> StudyState:
    """What a study is when nobody runs it any more; `left`: states of trials without a result."""
    if exhausted and not left:
        return StudyState.COMPLETE
    if study.request is not None:
        return {Request.PAUSE: StudyState.PAUSED, Request.CANCEL: StudyState.CANCELLED}[Request(study.request)]
    if exhausted and left == {TrialState.FAILED}:
        return StudyState.FAILED
    return StudyState.ACCEPTED if study.owner else StudyState.INTERRUPTED
