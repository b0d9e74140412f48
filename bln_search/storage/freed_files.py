"""Checkpoint files that were deleted to free disk space, as recorded in the event log of their study."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from bln_search.storage.events import append_event
from bln_search.storage.tables import EventRow

WEIGHTS_FREED = "weights_freed"
"""The kind of the event; its data has the names in `files`."""


def read_freed_times_by_file(
    session: Session | Connection, study_id: int | None = None
) -> dict[tuple[int, str], datetime]:
    """When each file was freed, by study and file name; of every study if `study_id` is None."""
    query = select(EventRow.study_id, EventRow.data, EventRow.at).where(EventRow.kind == WEIGHTS_FREED)
    if study_id is not None:
        query = query.where(EventRow.study_id == study_id)
    return {(study, file): at for study, data, at in session.execute(query) for file in data["files"]}


def record_freed_files(session: Session, study_id: int, files: Iterable[str], now: datetime) -> None:
    """Record that a study does not need these files any more."""
    append_event(session, study_id, now, WEIGHTS_FREED, {"files": sorted(files)})
