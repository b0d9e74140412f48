"""The checkpoint files that the studies of a database need."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from bln_search.storage.freed_files import read_freed_times_by_file
from bln_search.storage.tables import CheckpointRow, EpochWeightsRow, ExportRow, TrialRow
from bln_search.storage.tables.trials import NO_FILE


def read_digests_by_needed_file(
    session: Session | Connection, without: Collection[tuple[int, str]] = ()
) -> dict[str, str]:
    """SHA-256 by name of every file that a study needs: its checkpoints and snapshots, unless the study freed them.

    Args:
        session: An open session.
        without: Id of a study and name of a file, for files that are treated as freed, too.
    """
    freed = {*read_freed_times_by_file(session), *without}
    checkpoints = select(TrialRow.study_id, CheckpointRow.file, CheckpointRow.sha256).join(
        CheckpointRow, CheckpointRow.trial_id == TrialRow.id
    )
    checkpoints = checkpoints.where(CheckpointRow.file != NO_FILE)
    snapshots = (
        select(TrialRow.study_id, EpochWeightsRow.file, EpochWeightsRow.sha256)
        .join(CheckpointRow, CheckpointRow.trial_id == TrialRow.id)
        .join(EpochWeightsRow, EpochWeightsRow.checkpoint_id == CheckpointRow.id)
    )
    needed: dict[str, str] = {}
    for query in (checkpoints, snapshots):
        needed |= {file: sha256 for study, file, sha256 in session.execute(query) if (study, file) not in freed}
    return needed


def iter_export_archive_names(session: Session) -> Iterator[str]:
    """Names of the archives of exports, which no backup contains, because they can be built again."""
    for file in session.scalars(select(ExportRow.file).where(ExportRow.file.is_not(None))):
        if file is not None:
            yield file
