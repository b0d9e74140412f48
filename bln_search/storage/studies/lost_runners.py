"""Releases studies whose process is gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from bln_search.core.states import StudyState
from bln_search.storage.database import Database
from bln_search.storage.studies.lifecycle import set_study_state, state_after_release
from bln_search.storage.tables import StudyRow
from bln_search.storage.trials.attempts import AttemptRepository

_MAX_LOST_WORKERS = 5
"""Number of workers that die on a study, with no trial ended in between, after which the study has failed."""


def release_lost_studies(database: Database, is_alive: Callable[[str], bool], worker: str | None = None) -> None:
    """Release the studies whose process is gone; a study on which many workers died has failed.

    A process is gone if it is known to have ended. That of a study of the queue is also gone if its lease has expired;
    that of a command is not, because it may be suspended with its machine.

    Nothing is written, and no lock is taken, where there is no such study.

    Args:
        database: The database.
        is_alive: Whether the process of that name may be alive: True for one that this process cannot observe.
        worker: A worker that runs no study now: a study leased to it is one that it could not release.
    """

    def is_lost(study: StudyRow | Row[int, str | None, datetime | None, str], now: datetime) -> bool:
        if study.runner is not None and (study.runner == worker or not is_alive(study.runner)):
            return True
        return bool(study.owner) and not database.lease_clock.is_held(study.runner_until, now)

    columns = (StudyRow.id, StudyRow.runner, StudyRow.runner_until, StudyRow.owner)
    with database.read_session() as session:
        running = session.execute(select(*columns).where(StudyRow.state == StudyState.RUNNING)).all()
        now = database.now(session)
    lost = [study.id for study in running if is_lost(study, now)]
    if not lost:
        return
    with database.write_session() as session:
        locked = select(StudyRow).where(StudyRow.id.in_(lost), StudyRow.state == StudyState.RUNNING)
        now = database.now(session)
        for study in session.scalars(locked.with_for_update(skip_locked=True)).all():
            if is_lost(study, now):
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
