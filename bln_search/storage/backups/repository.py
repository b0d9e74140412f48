"""Backups of one database."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from bln_search.core.checkpoints import CheckpointStore
from bln_search.storage.backups.archive import BackupStore
from bln_search.storage.backups.create import BackupResult, OnProgress, create_backup
from bln_search.storage.backups.restore import VerifiedBackup, check_and_count_replaced_studies, restore_backup
from bln_search.storage.database import Database


class BackupRepository:
    """Creates backups of a database and restores them into it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def create(
        self,
        checkpoints: CheckpointStore,
        archive: BackupStore,
        scratch: Path,
        now: datetime,
        on_progress: OnProgress,
    ) -> BackupResult:
        """Back up the database and its checkpoints; see `create_backup`."""
        return create_backup(self.database, checkpoints, archive, scratch, now, on_progress)

    def check_and_count_replaced_studies(self, *, overwrite: bool) -> int:
        """Return the number of studies that a restore replaces, see `check_and_count_replaced_studies`."""
        return check_and_count_replaced_studies(self.database, overwrite=overwrite)

    def restore(
        self, backup: VerifiedBackup, checkpoints: CheckpointStore, on_progress: OnProgress, *, overwrite: bool
    ) -> int:
        """Restore a backup into the database, see `restore_backup`; returns the number of written checkpoints."""
        return restore_backup(backup, self.database, checkpoints, on_progress, overwrite=overwrite)
