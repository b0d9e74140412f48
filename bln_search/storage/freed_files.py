"""Checkpoint files that a study gave up to free disk space; its event log records them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from bln_search.storage.events import append_event
from bln_search.storage.tables import EventRow

WEIGHTS_FREED = "weights_freed"
"""The kind of the event; its data has the names in `files`."""


def find_freed_files(session: Session | Connection, study_id: int | None = None) -> dict[tuple[int, str], datetime]:
    """When each file was given up, by study and file name; of every study where `study_id` is None."""
    query = select(EventRow.study_id, EventRow.data, EventRow.at).where(EventRow.kind == WEIGHTS_FREED)
    if study_id is not None:
        query = query.where(EventRow.study_id == study_id)
    return {(study, file): at for study, data, at in session.execute(query) for file in data["files"]}


def record_freed_files(session: Session, study_id: int, files: Iterable[str], now: datetime) -> None:
    """Record that a study gives these files up."""
    append_event(session, study_id, now, WEIGHTS_FREED, {"files": sorted(files)})
