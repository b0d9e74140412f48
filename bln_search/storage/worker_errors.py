"""Errors that nobody foresaw in a worker: noted as events of the study, so that they are counted across workers."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.core.states import ENDED, StudyState
from bln_search.storage.engine import writing
from bln_search.storage.events import append_event
from bln_search.storage.ledger import OPEN, Ledger
from bln_search.storage.standing import move_study
from bln_search.storage.tables import EventRow, StudyRow

WORKER_ERROR = "worker_error"

_ANEW = (
    *(f"trial_{state}" for state in ENDED),
    *(f"study_{state}" for state in (StudyState.FAILED, StudyState.PAUSED, StudyState.CANCELLED)),
)
"""Kinds of events after which errors are counted anew: a trial had a result, or a person decides what comes next."""


def record_worker_error(ledger: Ledger, study_id: int, runner: str, reason: str, most: int) -> bool:
    """Note an error that `runner` met in the study; returns whether the study has failed with it.

    It fails at the `most`-th error without a trial ended in between; before that, whoever runs it hands it back.
    Nothing of it is left running, unless another process has taken it over.
    """
    with writing(ledger.engine) as session:
        study = session.get(StudyRow, study_id, with_for_update=True)
        if study is None:
            return False
        append_event(session, study_id, ledger.now(session), WORKER_ERROR, {"worker": runner, "reason": reason})
        if study.runner not in (runner, None) or study.state not in OPEN:
            return False
        ledger.take_back(session, study_id)
        if _errors_in_a_row(session, study_id) < most:
            return False
        study.runner = study.runner_until = study.request = None
        study.reason = reason
        move_study(session, study, StudyState.FAILED, ledger.now(session))
        return True


def _errors_in_a_row(session: Session, study_id: int) -> int:
    of_study = EventRow.study_id == study_id
    last = select(func.coalesce(func.max(EventRow.number), 0)).where(of_study, EventRow.kind.in_(_ANEW))
    counted = select(func.count()).where(
        of_study, EventRow.kind == WORKER_ERROR, EventRow.number > last.scalar_subquery()
    )
    return session.scalar(counted) or 0
