"""Backups: the database and every checkpoint that it names, at one moment."""

from __future__ import annotations

from bln_search.storage.backups.archive import Archive
from bln_search.storage.backups.making import Made, make_backup
from bln_search.storage.backups.manifest import Manifest
from bln_search.storage.backups.restoring import Verified, restore, verified

__all__ = ["Archive", "Made", "Manifest", "Verified", "make_backup", "restore", "verified"]
