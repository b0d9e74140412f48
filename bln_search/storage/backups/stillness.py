"""A database of which nobody runs anything: what was under way when it was copied waits for a worker again."""

from __future__ import annotations

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from bln_search.core.states import AttemptState, Request, StudyState
from bln_search.storage.engine import writing
from bln_search.storage.events import append_event
from bln_search.storage.ledger import Ledger
from bln_search.storage.standing import move_study
from bln_search.storage.tables import AttemptRow, StudyRow, TrialRow, WorkerRow


def still(ledger: Ledger) -> int:
    """End every attempt and lease, give the trials back; returns how many studies were running.

    One of an owner goes back into the queue, one of a command is interrupted; a pause or cancellation that was asked
    for is carried out.
    """
    with writing(ledger.engine) as session:
        session.execute(delete(WorkerRow))
        complete = update(StudyRow).where(StudyRow.state == StudyState.COMPLETE)
        session.execute(complete.values(runner=None, runner_until=None))
        for study_id in _with_attempts(session):
            ledger.take_back(session, study_id)
        running = session.scalars(select(StudyRow).where(StudyRow.state == StudyState.RUNNING)).all()
        for study in running:
            append_event(session, study.id, ledger.now(session), "study_restored", {})
            state = _following(study)
            study.runner = study.runner_until = study.request = None
            move_study(session, study, state, ledger.now(session))
        return len(running)


def _with_attempts(session: Session) -> list[int]:
    query = select(TrialRow.study_id).join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
    return list(session.scalars(query.where(AttemptRow.state == AttemptState.RUNNING).distinct()))


def _following(study: StudyRow) -> StudyState:
    if study.request is not None:
        return StudyState.PAUSED if study.request == Request.PAUSE else StudyState.CANCELLED
    return StudyState.ACCEPTED if study.owner else StudyState.INTERRUPTED
