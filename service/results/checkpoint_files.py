"""Checkpoint files, verified against their recorded digest before they are sent."""

from __future__ import annotations

import hashlib
import logging
from functools import lru_cache
from pathlib import Path

from bln_search.core.checkpoints import CheckpointStore, FolderStore
from bln_search.core.errors import BlnSearchError, CheckpointStoreError
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.records import CheckpointRecord
from bln_search.storage.ledger import Ledger
from service.http.problems import ProblemException

_log = logging.getLogger(__name__)
_CACHED_DIGESTS = 4096
"""Files whose digest is cached; a file with another size, time or inode is read again."""


def get_verified_checkpoint_path_or_bytes(
    store: CheckpointStore, ledger: Ledger, study_id: int, row: CheckpointRecord
) -> Path | bytes:
    """Return the path of a checkpoint file in a local folder, or the content of one in a bucket.

    Raises:
        ProblemException: 502 if the content differs from what was recorded.
        FileNotFoundError: The store has no such file.
        CheckpointStoreError: The store cannot be read.
    """
    if isinstance(store, FolderStore) and store.has_file(row.file):
        file: Path | bytes = store.path / row.file
        digest = cached_file_sha256(store.path / row.file)
    else:
        file = store.read(row.file)
        digest = hashlib.sha256(file).hexdigest()
    if digest != row.sha256:
        raise _record_damage_and_make_problem(ledger, study_id, row, digest)
    return file


def cached_file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which is read again only if it has changed.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointStoreError: It cannot be read.
    """
    try:
        status = path.stat()
        return _sha256_of_unchanged_file(path, status.st_size, status.st_mtime_ns, status.st_ino)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointStoreError(f"{path} cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=_CACHED_DIGESTS)
def _sha256_of_unchanged_file(path: Path, _size: int, _changed: int, _inode: int) -> str:
    return compute_file_sha256(path)


def _record_damage_and_make_problem(
    ledger: Ledger, study_id: int, row: CheckpointRecord, digest: str
) -> ProblemException:
    """Log and record the damage; return the problem."""
    assert row.trial_id is not None, "it was read from the ledger"
    extra = {"study_id": study_id}
    _log.error("checkpoint %s is damaged: SHA-256 %s, recorded %s", row.file, digest, row.sha256, extra=extra)
    try:
        ledger.checkpoints.record_damaged_file(study_id, row.trial_id, row.file)
    except BlnSearchError as error:
        _log.warning("the damage cannot be recorded as an event of the study: %s", error, extra=extra)
    return ProblemException(
        502,
        "damaged",
        f"the file {row.file} is damaged: its content is not the trained network; the operator of this service can "
        "restore it from a backup",
    )
