"""Backups: the database and every checkpoint that it names, as of one moment."""

from __future__ import annotations

from bln_search.storage.backups.archive import BackupStore
from bln_search.storage.backups.create import BackupResult
from bln_search.storage.backups.manifest import BackupManifest
from bln_search.storage.backups.repository import BackupRepository
from bln_search.storage.backups.restore import VerifiedBackup, open_verified_backup

__all__ = [
    "BackupManifest",
    "BackupRepository",
    "BackupResult",
    "BackupStore",
    "VerifiedBackup",
    "open_verified_backup",
]
