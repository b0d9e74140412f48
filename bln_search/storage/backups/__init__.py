"""Backups: the database and every checkpoint that it names, as of one moment."""

from __future__ import annotations

from bln_search.storage.backups.archive import BackupArchive
from bln_search.storage.backups.create import BackupResult
from bln_search.storage.backups.manifest import Manifest
from bln_search.storage.backups.repository import Backups
from bln_search.storage.backups.restore import VerifiedBackup, verify_backup

__all__ = ["BackupArchive", "BackupResult", "Backups", "Manifest", "VerifiedBackup", "verify_backup"]
