"""Counts unexpected errors of workers in a study, from its event log, so that errors of all workers count together."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.core.states import ENDED, StudyState
from bln_search.storage.tables import EventRow

WORKER_ERROR = "worker_error"
"""Kind of the event of an unexpected error."""

_RESETTING = (
    *(f"trial_{state}" for state in ENDED),
    *(f"study_{state}" for state in (StudyState.FAILED, StudyState.PAUSED, StudyState.CANCELLED)),
)
"""Kinds of events that reset the count: a trial has a result, or a person has changed the state of the study."""


def count_worker_errors_since_reset(session: Session, study_id: int) -> int:
    """The number of errors since the last event that resets the count."""
    of_study = EventRow.study_id == study_id
    last_reset = select(func.coalesce(func.max(EventRow.number), 0)).where(of_study, EventRow.kind.in_(_RESETTING))
    is_recent = EventRow.kind == WORKER_ERROR, EventRow.number > last_reset.scalar_subquery()
    return session.scalar(select(func.count()).where(of_study, *is_recent)) or 0
