"""Releases studies whose process is gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from bln_search.core.states import StudyState
from bln_search.storage.database import Database
from bln_search.storage.studies.lifecycle import set_study_state, state_after_release
from bln_search.storage.tables import StudyRow
from bln_search.storage.trials.attempts import AttemptRepository

_MAX_LOST_WORKERS = 5
"""Number of workers that die on a study, with no trial ended in between, after which the study has failed."""


def release_studies_of_ended_processes(database: Database, is_alive: Callable[[str], bool]) -> None:
    """Release every study whose process is known to have ended, whatever its lease says.

    Nothing is written, and no lock is taken, where there is none.

    Args:
        database: The database.
        is_alive: Whether the process of that name may be alive: True for one that this process cannot observe.
    """
    with database.read_session() as session:
        runners = session.execute(
            select(StudyRow.id, StudyRow.runner).where(StudyRow.state == StudyState.RUNNING)
        ).all()
    ended = [study_id for study_id, runner in runners if runner is not None and not is_alive(runner)]
    if not ended:
        return
    with database.write_session() as session:
        now = database.now(session)
        for study in session.scalars(_lock_running_studies().where(StudyRow.id.in_(ended))).all():
            if study.runner is not None and not is_alive(study.runner):
                release_study(database, session, study, now, lost=True)


def release_lost_studies_of_queue(database: Database, worker: str, is_alive: Callable[[str], bool]) -> None:
    """Return studies to the queue whose worker is gone; a study on which many workers died has failed.

    Args:
        database: The database.
        worker: It runs no study when it claims one: a study leased to it is one that it could not release.
        is_alive: Whether the process of that name on this machine is alive.
    """
    with database.write_session() as session:
        running = session.scalars(_lock_running_studies().where(StudyRow.owner != "")).all()
        now = database.now(session)
        for study in running:
            is_held = database.lease_clock.is_held(study.runner_until, now)
            has_live_runner = study.runner and is_held and is_alive(study.runner)
            if not has_live_runner or study.runner == worker:
                release_study(database, session, study, now, lost=study.runner != worker)


def release_study(database: Database, session: Session, study: StudyRow, now: datetime, *, lost: bool) -> None:
    """End the attempts of a study, and give it the state that it has without a process.

    Args:
        database: The database.
        session: An open session.
        study: The study, locked.
        now: Time of the change.
        lost: Whether its process died.
    """
    AttemptRepository(database).end_attempts_and_reopen_trials(session, study.id)
    study.losses += lost
    study.runner = study.runner_until = None
    state, study.request = state_after_release(study), None
    if state is StudyState.ACCEPTED and study.losses >= _MAX_LOST_WORKERS:
        state = StudyState.FAILED
        study.reason = f"{study.losses} workers died on this study, one after another, without a result"
    set_study_state(session, study, state, now)


def _lock_running_studies() -> Select[StudyRow]:
    return select(StudyRow).where(StudyRow.state == StudyState.RUNNING).with_for_update(skip_locked=True)
