"""Resets the studies of a copied database that were running when it was copied."""

from __future__ import annotations

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from bln_search.core.states import AttemptState, StudyState
from bln_search.storage.database import Database
from bln_search.storage.events import append_event
from bln_search.storage.studies.lifecycle import set_study_state, state_after_release
from bln_search.storage.tables import AttemptRow, StudyRow, TrialRow, WorkerRow
from bln_search.storage.trials.attempts import AttemptRepository


def reset_and_count_running_studies(database: Database) -> int:
    """End every attempt and lease, and open the trials again.

    A study with an owner returns to the queue, a study without an owner is interrupted. A requested pause or
    cancellation is carried out.

    Returns:
        The number of studies that were running.
    """
    attempts = AttemptRepository(database)
    with database.write_session() as session:
        session.execute(delete(WorkerRow))
        complete = update(StudyRow).where(StudyRow.state == StudyState.COMPLETE)
        session.execute(complete.values(runner=None, runner_until=None))
        for study_id in _list_studies_with_running_attempts(session):
            attempts.end_attempts_and_reopen_trials(session, study_id)
        running = session.scalars(select(StudyRow).where(StudyRow.state == StudyState.RUNNING)).all()
        for study in running:
            append_event(session, study.id, database.now(session), "study_restored", {})
            state = state_after_release(study)
            study.runner = study.runner_until = study.request = None
            set_study_state(session, study, state, database.now(session))
        return len(running)


def _list_studies_with_running_attempts(session: Session) -> list[int]:
    """Ids of the studies with running attempts."""
    query = select(TrialRow.study_id).join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
    return list(session.scalars(query.where(AttemptRow.state == AttemptState.RUNNING).distinct()))
