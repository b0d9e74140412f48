"""The event log of a study."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from bln_search.storage.tables import EventRow, StudyRow


def append_event(
    session: Session, study_id: int, at: datetime, kind: str, data: dict[str, Any], trial_id: int | None = None
) -> None:
    """Add the study's next event; numbers have no gaps."""
    append_events(session, study_id, at, kind, [data], trial_id)


def append_events(
    session: Session, study_id: int, at: datetime, kind: str, data: Sequence[dict[str, Any]], trial_id: int | None
) -> None:
    """Add events of one kind, one for each of `data`."""
    present = select(StudyRow.last_event).where(StudyRow.id == study_id).with_for_update()  # one writer at a time
    last = session.scalar(present) or 0
    grown = update(StudyRow).where(StudyRow.id == study_id).values(last_event=last + len(data))
    session.execute(grown.execution_options(synchronize_session=False))
    for number, one in enumerate(data, start=last + 1):
        session.add(EventRow(study_id=study_id, number=number, at=at, kind=kind, trial_id=trial_id, data=one))
    session.flush()
