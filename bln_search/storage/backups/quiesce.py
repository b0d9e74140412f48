"""Resets a copied database in which nothing runs: what ran when it was copied waits for a worker again."""

from __future__ import annotations

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from bln_search.core.states import AttemptState, StudyState
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.studies.lifecycle import move_study, released_state
from bln_search.storage.tables import AttemptRow, StudyRow, TrialRow, WorkerRow
from bln_search.storage.trials.attempts import AttemptRepository


def reset_running_studies(database: Database) -> int:
    """End every attempt and lease, and open the trials again; returns the number of studies that were running.

    A study with an owner returns to the queue, one without is interrupted; a requested pause or cancellation is carried
    out.
    """
    attempts = AttemptRepository(database)
    with database.writing() as session:
        session.execute(delete(WorkerRow))
        complete = update(StudyRow).where(StudyRow.state == StudyState.COMPLETE)
        session.execute(complete.values(runner=None, runner_until=None))
        for study_id in _list_with_attempts(session):
            attempts.reclaim_attempts(session, study_id)
        running = session.scalars(select(StudyRow).where(StudyRow.state == StudyState.RUNNING)).all()
        for study in running:
            append_event(session, study.id, database.now(session), "study_restored", {})
            state = released_state(study)
            study.runner = study.runner_until = study.request = None
            move_study(session, study, state, database.now(session))
        return len(running)


def _list_with_attempts(session: Session) -> list[int]:
    query = select(TrialRow.study_id).join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
    return list(session.scalars(query.where(AttemptRow.state == AttemptState.RUNNING).distinct()))
