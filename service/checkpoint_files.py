"""The files of trained networks, handed out only as they were written."""

from __future__ import annotations

import hashlib
import logging
from functools import lru_cache
from pathlib import Path

from bln_search.core.checkpoints import CheckpointStore, Folder
from bln_search.core.errors import BlnSearchError
from bln_search.storage.files import record_damage
from bln_search.storage.ledger import Ledger
from bln_search.storage.tables import CheckpointRow
from service.problems import RefusedError

_log = logging.getLogger(__name__)
_KEPT = 4096
"""Files whose digest is remembered; one that has another size, time or place on the disk is read again."""


def checked_file(store: CheckpointStore, ledger: Ledger, study_id: int, row: CheckpointRow) -> Path | bytes:
    """The file of a checkpoint where it lies, or its content where that is no folder of this machine.

    Raises RefusedError where the content is not what was trained; FileNotFoundError, CheckpointStoreError.
    """
    if isinstance(store, Folder) and store.has(row.file):
        found: Path | bytes = store.path / row.file
        digest = _digest_of(store.path / row.file)
    else:
        found = store.read(row.file)
        digest = hashlib.sha256(found).hexdigest()
    if digest != row.sha256:
        raise _damaged(ledger, study_id, row, digest)
    return found


def _digest_of(path: Path) -> str:
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=_KEPT)
def _digest(path: Path, _size: int, _changed: int, _inode: int) -> str:
    """Read in pieces: a network may be larger than the memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _damaged(ledger: Ledger, study_id: int, row: CheckpointRow, digest: str) -> RefusedError:
    about = {"study_id": study_id}
    _log.error("checkpoint %s is damaged: SHA-256 %s, recorded %s", row.file, digest, row.sha256, extra=about)
    try:
        record_damage(ledger, study_id, row.trial_id, row.file)
    except BlnSearchError as error:
        _log.warning("the damage is not in the study's events: %s", error, extra=about)
    return RefusedError(
        502,
        "damaged",
        f"the file {row.file} is damaged: its content is not the network that was trained; whoever runs this service "
        "can restore it from a backup",
    )
