"""Finds and removes checkpoint files that no study needs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, func, select

from bln_search.core.checkpoints import CheckpointStore, InvalidFileNameError, StoredFileInfo
from bln_search.core.errors import CheckpointStoreError, LedgerError
from bln_search.core.exports import ARCHIVE_SUFFIX
from bln_search.core.states import AttemptState
from bln_search.core.training_states import TRAINING_STATE_SUFFIX
from bln_search.storage.checkpoints.ownership import is_marker, iter_other_owning_databases
from bln_search.storage.checkpoints.prunable_files import PrunableFilesOfStudy
from bln_search.storage.checkpoints.store_link import check_store
from bln_search.storage.database import Database
from bln_search.storage.needed_files import list_files_in_use, list_possible_training_state_files
from bln_search.storage.studies.lookup import read_study_list_version
from bln_search.storage.tables import AttemptRow, CheckpointRow, EpochWeightsRow, ExportRow, StudyRow, TrialRow

_log = logging.getLogger(__name__)

MIN_AGE = timedelta(hours=1)
"""A file is written before its row, by a process whose clock may differ from that of the checkpoint store."""

_CLOCK_SKEW = timedelta(minutes=1)
"""Largest difference between the clocks of a machine that writes files and of the database."""

_BATCH = 500
"""Number of file names in one query."""

_KINDS = r"[0-9a-f]{32}\.(safetensors|zip|state)"
_OUR_FILES = re.compile(rf"{_KINDS}|\.{_KINDS}-\w+|\.check-[0-9a-f]{{16}}")
"""Checkpoints, archives of exports, states of trainings, unfinished writes of them, and test files of the store."""


@dataclass(frozen=True)
class GarbageReport:
    """Files that no study needs.

    Attributes:
        files: Files that may be removed.
        too_recent: Number of files that a running attempt may still need.
        unknown: Number of files that bln-search did not write.
        cutoff: Time before which a file must have been written to be removed.
    """

    files: tuple[StoredFileInfo, ...]
    too_recent: int
    unknown: int
    cutoff: datetime

    @property
    def removable_bytes(self) -> int:
        """Bytes of the files that may be removed."""
        return sum(file.size for file in self.files)


class GarbageCollector:
    """Finds and removes checkpoint files that no study of this database needs."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def find_garbage(
        self, checkpoints: CheckpointStore, age: timedelta, prunable: Iterable[PrunableFilesOfStudy] = ()
    ) -> GarbageReport:
        """Find files that no study needs.

        Snapshots are written while a trial trains, their rows when training has ended: a file that is younger than the
        oldest running attempt may be one of them.

        Args:
            checkpoints: The store.
            age: Least age of a file. It must also be older than every running attempt.
            prunable: Networks that are treated as freed.

        Raises:
            WrongCheckpointStoreError: the networks of the database are in another store.
            LedgerError: the database has no study, or another database uses the store: its files would look unneeded.
        """
        if age < MIN_AGE:
            raise LedgerError("files younger than an hour may belong to a running trial: give --older-than 1h or more")
        check_store(self.database, checkpoints)
        self._check_sole_owner(checkpoints)
        # first: a row that is added later belongs to a file that is too recent, or is read below
        stored = [file for file in checkpoints.iter_files() if not is_marker(file.name)]
        cutoff = self._compute_removal_cutoff(age)
        with self.database.read_session() as session:
            if stored and not session.scalar(select(func.count()).select_from(StudyRow)):
                raise LedgerError(
                    f"the database {self.database} has no study, but {checkpoints} has files: they may belong to "
                    "another database; check that --database and BLN_SEARCH_CHECKPOINTS belong together"
                )
            freed = {(networks.study_id, file) for networks in prunable for file in networks.files}
            needed = list_files_in_use(session, freed)
        unneeded = [file for file in stored if file.name not in needed]
        ours = [file for file in unneeded if _OUR_FILES.fullmatch(file.name)]
        removable = tuple(file for file in ours if file.written_at < cutoff)
        return GarbageReport(removable, len(ours) - len(removable), len(unneeded) - len(ours), cutoff)

    def remove_unreferenced_files(self, checkpoints: CheckpointStore, names: Iterable[str]) -> None:
        """Remove files of a deleted study or of expired exports, except those that a row has named again meanwhile.

        A file is named by its content, so equal trials of two studies write the same file. Each file is checked right
        before it is removed, because removing many files from a bucket takes long.
        """
        candidates, version = sorted(set(names)), None
        referenced: set[str] = set()
        for name in candidates:
            # first: an attempt that ended has written its row; archives and training states never get one
            has_row = not name.endswith((ARCHIVE_SUFFIX, TRAINING_STATE_SUFFIX))
            too_recent = has_row and self._may_lack_row_yet(checkpoints, name)
            with self.database.open_core_connection() as connection:
                current = read_study_list_version(connection)
            if current != version:
                version, referenced = current, self._filter_referenced_files(candidates)
            if not too_recent and name not in referenced:
                with suppress(InvalidFileNameError):  # of a damaged database: no store has such a file
                    checkpoints.delete(name)

    def remove_training_states(self, study_id: int, checkpoints: CheckpointStore) -> None:
        """Remove the states of trainings of a study. An error of the store is logged: a later clean removes them."""
        with self.database.read_session() as session:
            files = list_possible_training_state_files(session, TrialRow.study_id == study_id)
        try:
            for file in files:
                checkpoints.delete(file)
        except (OSError, CheckpointStoreError) as error:
            _log.warning("study %d: saved trainings are not removed: %s", study_id, error)

    def _check_sole_owner(self, checkpoints: CheckpointStore) -> None:
        for owner, marker in iter_other_owning_databases(checkpoints, self.database.engine.url):
            raise LedgerError(
                f"{checkpoints} also has networks of the database {owner}, which would be removed: give each "
                "database its own store (BLN_SEARCH_CHECKPOINTS). If that one does not exist any more, or is this one "
                f"under another name, delete {checkpoints}/{marker} and clean again"
            )

    def _may_lack_row_yet(self, checkpoints: CheckpointStore, name: str) -> bool:
        """Whether a running attempt may have written the file but not yet its row."""
        with self.database.read_session() as session:
            after, _ = self.database.lease_clock.held_range(self.database.now(session))
            oldest: datetime | None = session.scalar(_select_oldest_running_attempt_start(after))
        file = None if oldest is None else checkpoints.find_file_info(name)
        return oldest is not None and file is not None and file.written_at > oldest - _CLOCK_SKEW

    def _filter_referenced_files(self, names: Sequence[str]) -> set[str]:
        """The files among `names` that a row of a study names."""
        referenced: set[str] = set()
        with self.database.read_session() as session:
            for batch in (names[start : start + _BATCH] for start in range(0, len(names), _BATCH)):
                for table in (CheckpointRow, EpochWeightsRow, ExportRow):
                    files = session.scalars(select(table.file).where(table.file.in_(batch)))
                    referenced.update(file for file in files if file is not None)
        return referenced

    def _compute_removal_cutoff(self, age: timedelta) -> datetime:
        """The time before which files may be removed.

        An attempt whose lease ended longer ago than `age` does not run any more, although its row says so.
        """
        now = self.database.now()
        with self.database.read_session() as session:
            oldest: datetime | None = session.scalar(_select_oldest_running_attempt_start(now - age))
        return min(now, oldest or now) - age


def remove_and_count_garbage(checkpoints: CheckpointStore, report: GarbageReport) -> tuple[int, int]:
    """Remove the files of a report, except those that were written again meanwhile.

    Returns:
        The number of removed files, and their bytes.
    """
    removed, size = 0, 0
    for file in report.files:
        current = checkpoints.find_file_info(file.name)
        if current is not None and current.written_at < report.cutoff:
            checkpoints.delete(file.name)
            removed, size = removed + 1, size + current.size
    return removed, size


def _select_oldest_running_attempt_start(since: datetime) -> Select[datetime]:
    """The start of the oldest running attempt, or of an earlier attempt at its trial from which it may have resumed."""
    running = select(AttemptRow.trial_id).where(
        AttemptRow.state == AttemptState.RUNNING, AttemptRow.lease_until > since
    )
    return select(func.min(AttemptRow.started_at)).where(AttemptRow.trial_id.in_(running))
