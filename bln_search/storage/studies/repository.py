"""Stores studies, and leases them to processes that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload, selectinload

from bln_search.core.code_identity import CodeVersion, StudyCode
from bln_search.core.errors import StudyBusyError, StudyLeaseLostError, UnknownStudyError
from bln_search.core.states import ENDED, StopRequest, StudyState, TrialState
from bln_search.specs.records import StudyRecord
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.leases import LEASE
from bln_search.storage.migration import check_schema_revision_unchanged
from bln_search.storage.needed_files import list_files_of_study
from bln_search.storage.studies.lifecycle import (
    OPEN_STATES,
    add_study,
    find_study_id,
    get_and_lock_study,
    set_study_state,
    state_after_run,
)
from bln_search.storage.studies.lookup import (
    StudyHeader,
    count_trials_by_study_and_state,
    find_header,
    find_study_row,
    make_study_record,
)
from bln_search.storage.studies.lost_runners import release_lost_studies
from bln_search.storage.tables import EventRow, StudyRow, TrialRow
from bln_search.storage.trials.attempts import AttemptRepository, list_running_attempts
from bln_search.storage.trials.running_attempts import reopen_failed_trials

if TYPE_CHECKING:
    from bln_search.specs.study import StudySpec

_WORKER_ERROR = "worker_error"
"""Kind of the event of an unexpected error."""

_RESETTING = (
    *(f"trial_{state}" for state in ENDED),
    *(f"study_{state}" for state in (StudyState.FAILED, StudyState.PAUSED, StudyState.CANCELLED)),
)
"""Kinds of events that reset the count: a trial has a result, or a person has changed the state of the study."""


class StudyRepository:
    """Stores studies and moves them through their states."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._attempts = AttemptRepository(database)

    def store_study_once(self, spec: StudySpec) -> int:
        """Store a study with its trials atomically and return its id; an equal study is stored once."""
        with self.database.write_session() as session:
            existing_id = find_study_id(session, "", spec.name, spec.digest)
            return add_study(session, spec, self.database.now(session)) if existing_id is None else existing_id

    def get(self, study_id: int) -> StudyRecord:
        """The study of that id. Raises UnknownStudyError if there is none."""
        with self.database.read_session() as session:
            row = session.get(StudyRow, study_id, options=[joinedload(StudyRow.tag_rows)])
            if row is None:
                raise UnknownStudyError(f"there is no study {study_id}")
            return make_study_record(row, count_trials_by_study_and_state(session, [study_id]).get(study_id, {}))

    def get_by_name_or_id(self, name_or_id: str) -> StudyRecord:
        """The study of that id, otherwise the newest one of that name.

        Studies of commands, which have no owner, come before those of accounts.

        Raises:
            UnknownStudyError: there is no such study.
            AmbiguousStudyError: several accounts have a study of that name.
        """
        with self.database.read_session() as session:
            row = find_study_row(session, name_or_id)
            if row is None:
                raise UnknownStudyError(
                    f"there is no study {name_or_id!r} in {self.database}", "`bln-search list` prints the existing ones"
                )
            return make_study_record(row, count_trials_by_study_and_state(session, [row.id]).get(row.id, {}))

    def find_header(self, study_id: int) -> StudyHeader | None:
        """The header of a study, in one small query; None where there is no such study."""
        with self.database.open_core_connection() as connection:
            return find_header(connection, study_id)

    def list_studies(self) -> list[StudyRecord]:
        """Every study, newest first; three queries for any number of studies."""
        with self.database.read_session() as session:
            counts = count_trials_by_study_and_state(session)
            query = select(StudyRow).options(selectinload(StudyRow.tag_rows))
            rows = session.scalars(query.order_by(StudyRow.id.desc()))
            return [make_study_record(row, counts.get(row.id, {})) for row in rows]

    def lease_and_start(self, study_id: int, is_alive: Callable[[str], bool], runner: str | None = None) -> None:
        """Lease the study to a runner and mark it as running; trials of lost attempts open again.

        Args:
            study_id: The study.
            is_alive: Whether the process of that name on this machine is alive.
            runner: Process that runs the study from now on.

        Raises:
            StudyBusyError: another process runs it, or one of its attempts is alive.
        """
        with self.database.write_session() as session:
            study = session.get_one(StudyRow, study_id, with_for_update=True)
            now, is_held = self.database.now(session), self.database.lease_clock.is_held
            holder = study.runner
            if holder is not None and holder != runner and is_alive(holder) and is_held(study.runner_until, now):
                raise StudyBusyError(f"{holder} runs this study: wait for it, or stop it first")
            study.runner, study.runner_until = runner, now + LEASE
            for attempt, trial in list_running_attempts(session, study_id):
                if is_alive(attempt.worker) and is_held(attempt.lease_until, now):
                    raise StudyBusyError(
                        f"{attempt.worker} runs this study (trial {trial.arm} seed {trial.seed}, last heartbeat at "
                        f"{attempt.heartbeat_at:%H:%M:%S} UTC): wait for it, or stop it first"
                    )
            self._attempts.end_attempts_and_reopen_trials(session, study_id)
            reopen_failed_trials(session, study_id)
            if study.state != StudyState.COMPLETE and not (study.owner and study.state == StudyState.RUNNING):
                set_study_state(session, study, StudyState.RUNNING, now)
                study.request = study.reason = None

    def release_lost_studies(self, is_alive: Callable[[str], bool]) -> None:
        """Release the studies whose process is gone; `is_alive` as for `lease_and_start`."""
        release_lost_studies(self.database, is_alive)

    def add_code_version(self, study_id: int, version: CodeVersion) -> StudyCode:
        """Record another version of the code of a study's results, unless it is the newest one already.

        Returns:
            Every version.
        """
        with self.database.write_session() as session:
            study = get_and_lock_study(session, study_id)
            recorded = () if study.code is None else StudyCode.decode(study.code).versions
            if recorded and recorded[-1].identity == version.identity:
                return StudyCode(recorded)
            code = StudyCode((*recorded, version))
            study.code = code.encode()
            study.revision += 1
            return code

    def finish_run(
        self,
        study_id: int,
        *,
        exhausted: bool = True,
        blocked: bool = False,
        runner: str | None = None,
        reason: str | None = None,
    ) -> StudyState:
        """End the run of a study.

        The first state of this list whose condition holds is the new one:

        - complete: every trial has a result and no further point will be sampled;
        - failed: no pause or cancellation is requested, and only failed trials are left, with those that they block;
        - paused or cancelled: as requested;
        - accepted: the study has an owner, so it waits in the queue;
        - interrupted.

        Nothing changes if another process has claimed the study.

        Args:
            study_id: The study.
            exhausted: Whether no further point will be sampled.
            blocked: Whether trials that wait need the results of failed ones.
            runner: Process that ends the run; None for any.
            reason: Why the study cannot complete.

        Returns:
            The state of the study.
        """
        with self.database.write_session() as session:
            study = session.get_one(StudyRow, study_id, with_for_update=True)
            if list_running_attempts(session, study_id) or (runner is not None and study.runner != runner):
                return StudyState(study.state)
            states = set(session.scalars(select(TrialRow.state).where(TrialRow.study_id == study_id).distinct()))
            unfinished = states - {state.value for state in ENDED}
            state = state_after_run(study, unfinished, exhausted=exhausted and reason is None, blocked=blocked)
            study.runner = study.runner_until = None
            study.request = None
            study.reason = reason or (
                _find_first_failure_reason(session, study_id) if state is StudyState.FAILED else None
            )
            if study.state != state:
                set_study_state(session, study, state, self.database.now(session))
            return state

    def fail_unless_claimed(self, study_id: int, runner: str, reason: str) -> None:
        """Mark a study as failed because no worker can complete it, unless another process has claimed it."""
        with self.database.write_session() as session:
            study = session.get(StudyRow, study_id, with_for_update=True)
            if study is not None and study.runner in (runner, None) and study.state in OPEN_STATES:
                self._attempts.end_attempts_and_reopen_trials(session, study_id)
                self._set_study_failed(session, study, reason)

    def record_worker_error_or_fail(self, study_id: int, runner: str, reason: str, limit: int) -> bool:
        """Record an unexpected error of a worker in a study, which fails at the `limit`-th one in a row.

        The count starts anew when a trial ends or a person changes the study's state. No attempt is left running,
        unless another process has claimed the study.

        Args:
            study_id: The study.
            runner: The worker.
            reason: The error.
            limit: Errors in a row after which the study has failed.

        Returns:
            Whether the study has failed; otherwise its runner releases it.
        """
        with self.database.write_session() as session:
            study = session.get(StudyRow, study_id, with_for_update=True)
            if study is None:
                return False
            data = {"worker": runner, "reason": reason}
            append_event(session, study_id, self.database.now(session), _WORKER_ERROR, data)
            if study.runner not in (runner, None) or study.state not in OPEN_STATES:
                return False
            self._attempts.end_attempts_and_reopen_trials(session, study_id)
            if _count_worker_errors_since_reset(session, study_id) < limit:
                return False
            self._set_study_failed(session, study, reason)
            return True

    def _set_study_failed(self, session: Session, study: StudyRow, reason: str) -> None:
        study.runner = study.runner_until = study.request = None
        study.reason = reason
        set_study_state(session, study, StudyState.FAILED, self.database.now(session))

    def find_stop_request(self, study_id: int, runner: str) -> StopRequest | None:
        """The pending request to pause or cancel the study that `runner` runs; None if there is none.

        Raises:
            StudyLeaseLostError: another process runs the study, or it was deleted.
            SchemaChangedError: the database was upgraded meanwhile.
        """
        with self.database.read_session() as session:
            check_schema_revision_unchanged(session)
            row = session.execute(select(StudyRow.runner, StudyRow.request).where(StudyRow.id == study_id)).first()
        if row is None:
            raise StudyLeaseLostError(f"study {study_id} was deleted")
        if row.runner != runner:
            raise StudyLeaseLostError(f"study {study_id} is run by {row.runner or 'no process'} now")
        return StopRequest(row.request) if row.request else None

    def record_arm_search_with_too_few_points(self, study_id: int, arm: str, reason: str) -> None:
        """Record once that the search of an arm ended with fewer points than requested."""
        data = {"arm": arm, "reason": reason}
        with self.database.write_session() as session:
            recorded = select(EventRow.data).where(EventRow.study_id == study_id, EventRow.kind == "search_ended")
            if data not in session.scalars(recorded).all():
                append_event(session, study_id, self.database.now(session), "search_ended", data)

    def delete_and_list_unneeded_files(self, study_id: int) -> list[str]:
        """Delete a study with everything that belongs to it.

        Returns:
            Names of checkpoint files and archives that no other study needs.

        Raises:
            StudyBusyError: the study is running, unless the lease of its process has expired.
            UnknownStudyError: there is no such study.
        """
        with self.database.write_session() as session:
            study = get_and_lock_study(session, study_id)
            is_held = self.database.lease_clock.is_held(study.runner_until, self.database.now(session))
            if study.state == StudyState.RUNNING and is_held:
                raise StudyBusyError("the study is running: cancel it, or stop its command, before deleting it")
            files = list_files_of_study(session, study_id)
            session.delete(study)
            return files


def _find_first_failure_reason(session: Session, study_id: int) -> str | None:
    failed = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.state == TrialState.FAILED)
    trial = session.scalars(failed.order_by(TrialRow.position).limit(1)).first()
    return None if trial is None else f"trial {trial.arm} seed {trial.seed}: {trial.reason}"


def _count_worker_errors_since_reset(session: Session, study_id: int) -> int:
    """The number of errors since the last event that resets the count."""
    of_study = EventRow.study_id == study_id
    last_reset = select(func.coalesce(func.max(EventRow.number), 0)).where(of_study, EventRow.kind.in_(_RESETTING))
    is_recent = EventRow.kind == _WORKER_ERROR, EventRow.number > last_reset.scalar_subquery()
    return session.scalar(select(func.count()).where(of_study, *is_recent)) or 0
