"""Files: atomic writes, completely or not at all, and the SHA-256 of their content."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bln_search.core.errors import StorageFullError
from bln_search.core.files.private import PRIVATE_FILE, make_private_folder

DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""errno values of a write that exceeds the disk, the quota or the largest file size."""


def compute_file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which is read in chunks, because it may be larger than the memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomically(path: Path, content: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Write `content` to `path` atomically.

    Args:
        path: The file; its folder is created.
        content: The bytes to write.
        mode: Permissions of the file. A folder that is created for a private file is private, too.

    Raises:
        StorageFullError: The disk is full.
        OSError: Any other error of the file system.
    """
    with _atomic_file(path, len(content), mode) as stream:
        stream.write(content)


def copy_atomically(source: Path, path: Path) -> None:
    """Copy a file atomically without loading it into memory. Raises as `write_atomically` does."""
    with source.open("rb") as content, _atomic_file(path, source.stat().st_size, PRIVATE_FILE) as stream:
        shutil.copyfileobj(content, stream, 1024 * 1024)


@contextmanager
def _atomic_file(path: Path, size: int, mode: int) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that replaces it when the block ends without an error."""
    try:
        if mode == PRIVATE_FILE:
            make_private_folder(path.parent)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno in DISK_FULL_ERRNOS:
            raise StorageFullError(
                f"no disk space left to write {path} ({size} bytes): free some and run the same command again; "
                "finished results are stored"
            ) from None
        raise
