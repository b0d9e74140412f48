"""Which files of checkpoints the ledger needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import Connection, Engine, select
from sqlalchemy.orm import Session

from bln_search.storage.engine import reading, writing
from bln_search.storage.events import append_event
from bln_search.storage.ledger import Ledger
from bln_search.storage.tables import CheckpointRow, EventRow, SnapshotRow, StudyRow, TrialRow

WEIGHTS_FREED = "weights_freed"
"""The event of a study whose networks, or some of them, were given up; its data has their `files`."""


CHECKPOINT_DAMAGED = "checkpoint_damaged"
"""The event of a study where the content of a file is not what was written; its data has the `file`."""


def needed_files(session: Session | Connection, without: Collection[tuple[int, str]] = ()) -> dict[str, str]:
    """Name and SHA-256 of every file that a study needs: its networks and those of epochs on the way, unless freed.

    without: studies and files that are looked at as if they were freed, too.
    """
    freed = {*freed_files(session), *without}
    networks = select(TrialRow.study_id, CheckpointRow.file, CheckpointRow.sha256).join(
        CheckpointRow, CheckpointRow.trial_id == TrialRow.id
    )
    on_the_way = (
        select(TrialRow.study_id, SnapshotRow.file, SnapshotRow.sha256)
        .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        .join(SnapshotRow, SnapshotRow.checkpoint_id == CheckpointRow.id)
    )
    found: dict[str, str] = {}
    for query in (networks, on_the_way):
        found |= {file: sha256 for study, file, sha256 in session.execute(query) if (study, file) not in freed}
    return found


def freed_files(session: Session | Connection, study_id: int | None = None) -> dict[tuple[int, str], datetime]:
    """Files that a study has given up, and when; of every study where None."""
    query = select(EventRow.study_id, EventRow.data, EventRow.at).where(EventRow.kind == WEIGHTS_FREED)
    if study_id is not None:
        query = query.where(EventRow.study_id == study_id)
    return {(study, file): at for study, data, at in session.execute(query) for file in data["files"]}


def freed_at(engine: Engine, study_id: int, file: str) -> datetime | None:
    """When a study gave this file up; None where it did not."""
    with reading(engine) as session:
        return freed_files(session, study_id).get((study_id, file))


def free_files(session: Session, study_id: int, files: Iterable[str], now: datetime) -> None:
    """Write down that a study gives these files up."""
    append_event(session, study_id, now, WEIGHTS_FREED, {"files": sorted(files)})


def record_damage(ledger: Ledger, study_id: int, trial_id: int, file: str) -> None:
    """Write down, once for each network, that its file is damaged; nothing where the study is gone."""
    known = select(EventRow.id).where(
        EventRow.study_id == study_id, EventRow.trial_id == trial_id, EventRow.kind == CHECKPOINT_DAMAGED
    )
    with writing(ledger.engine) as session:
        if session.get(StudyRow, study_id, with_for_update=True) is None or session.scalar(known.limit(1)) is not None:
            return
        append_event(session, study_id, ledger.now(session), CHECKPOINT_DAMAGED, {"file": file}, trial_id)
