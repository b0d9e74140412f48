"""The event log of a study."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bln_search.storage.tables import EventRow, StudyRow


def append_event(
    session: Session, study_id: int, at: datetime, kind: str, data: dict[str, Any], trial_id: int | None = None
) -> None:
    """Add the study's next event; numbers have no gaps."""
    session.execute(select(StudyRow.id).where(StudyRow.id == study_id).with_for_update())  # one writer at a time
    last = session.scalar(select(func.max(EventRow.number)).where(EventRow.study_id == study_id)) or 0
    session.add(EventRow(study_id=study_id, number=last + 1, at=at, kind=kind, trial_id=trial_id, data=data))
    session.flush()
