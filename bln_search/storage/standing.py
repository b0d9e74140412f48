"""How a study enters the ledger and changes its state."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from bln_search.core.states import StudyState, check_transition
from bln_search.specs.study import StudySpec
from bln_search.specs.trial import trials_of
from bln_search.storage.events import append_event
from bln_search.storage.rows import new_study, new_trials
from bln_search.storage.tables import StudyRow

_ENDS = (StudyState.COMPLETE, StudyState.INTERRUPTED, StudyState.CANCELLED, StudyState.FAILED)


def accept_study(session: Session, study: StudySpec, now: datetime, owner: str = "") -> tuple[int, bool]:
    """Write the study and its trials down; its id, and whether it is new: the same study again is the same study."""
    same = (StudyRow.owner == owner, StudyRow.name == study.name, StudyRow.digest == study.digest)
    known = session.scalar(select(StudyRow.id).where(*same))
    if known is not None:
        return known, False
    trials = trials_of(study)
    row = new_study(study, now, owner, max(len(trials), study.sampled_points * len(study.seeds)))
    session.add(row)
    session.flush()
    session.add_all(new_trials(trials, row.id))
    append_event(session, row.id, now, "study_accepted", {"digest": study.digest})
    return row.id, True


def move_study(session: Session, study: StudyRow, state: StudyState, now: datetime) -> None:
    """Bring a study to another state. Raises TransitionError where that cannot follow its present one."""
    check_transition(StudyState(study.state), state)
    study.state = state
    study.revision += 1
    if state is StudyState.RUNNING:
        study.started_at = study.started_at or now
        study.ended_at = None
    elif state in _ENDS:
        study.ended_at = now
    data = {} if study.reason is None else {"reason": study.reason}
    append_event(session, study.id, now, f"study_{state}", data)
