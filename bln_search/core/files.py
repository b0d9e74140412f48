"""Files written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bln_search.core.errors import StorageFullError

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write that say: the disk, the quota or the largest file size is reached."""


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write `content` to `path`, all of it or nothing; mode: who may read it.

    Raises StorageFullError where the disk is full, OSError for what else is in the way.
    """
    with _whole(path, len(content), mode) as stream:
        stream.write(content)


def copy_whole(source: Path, path: Path) -> None:
    """Copy a file, all of it or nothing, without holding it in memory. Raises as `write_whole` does."""
    with source.open("rb") as content, _whole(path, source.stat().st_size, 0o600) as stream:
        shutil.copyfileobj(content, stream, 1024 * 1024)


@contextmanager
def _whole(path: Path, size: int, mode: int) -> Iterator[IO[bytes]]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            Path(unfinished).chmod(mode)
            Path(unfinished).replace(path)
        except BaseException:
            Path(unfinished).unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFullError(
                f"no room left to write {path} ({size} bytes): free some space and run the same command again; "
                "what was finished is kept"
            ) from None
        raise
