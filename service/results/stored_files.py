"""Files of the checkpoint store, verified against their recorded digest before they are sent."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from io import BufferedReader
from pathlib import Path

from fastapi.responses import FileResponse, Response, StreamingResponse

from bln_search.core.checkpoints import CheckpointStore, FolderStore
from bln_search.core.checkpoints.store import validated_file_name
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.files.atomic import compute_file_sha256
from bln_search.core.files.private import make_private_folder

MEDIA_TYPE = "application/octet-stream"
"""Also of archives: generators of clients do not know `application/zip`."""

_CHUNK = 1024 * 1024
_CACHED_DIGESTS = 4096
"""Files whose digest is cached; a file with another size, time or inode is read again."""


class DamagedFileError(Exception):
    """The content of a file has changed. digest: its SHA-256 now."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


def make_stored_file_response(store: CheckpointStore, file: str, sha256: str, name: str, scratch: Path) -> Response:
    """Return a response that streams a file of a store.

    Args:
        store: The store.
        file: Name of the file in the store.
        sha256: The recorded digest of its content.
        name: Name of the file for the client.
        scratch: Folder with disk space for a copy of a file in a bucket.

    Raises:
        FileNotFoundError: The store has no such file.
        DamagedFileError: The content differs from what was recorded.
        CheckpointStoreError: The store cannot be read.
    """
    headers = {"ETag": f'"{sha256}"'}
    if isinstance(store, FolderStore):
        path = store.path / validated_file_name(file)
        _check_digest(_cached_file_sha256(path), sha256)
        return FileResponse(path, filename=name, media_type=MEDIA_TYPE, headers=headers)
    content = _open_downloaded_copy(store, file, scratch)
    try:
        _check_digest(hashlib.file_digest(content, "sha256").hexdigest(), sha256)
    except BaseException:
        content.close()
        raise
    headers |= {"Content-Length": str(content.tell()), "Content-Disposition": f'attachment; filename="{name}"'}
    content.seek(0)
    return StreamingResponse(_iter_chunks_and_close(content), media_type=MEDIA_TYPE, headers=headers)


def _open_downloaded_copy(store: CheckpointStore, file: str, scratch: Path) -> BufferedReader:
    """A copy of a file in a bucket; it has no name any more, so that it ends with the response."""
    make_private_folder(scratch)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".export-") as folder:
        path = Path(folder) / "copy"
        store.download_file(file, path)
        return path.open("rb")


def _check_digest(digest: str, recorded: str) -> None:
    if digest != recorded:
        raise DamagedFileError(digest)


def _cached_file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, which is read again only if it has changed.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointStoreError: It cannot be read.
    """
    try:
        status = path.stat()
        return _sha256_of_unchanged_file(path, status.st_size, status.st_mtime_ns, status.st_ino)
    except (FileNotFoundError, IsADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise CheckpointStoreError(f"{path} cannot be read: {error.strerror or error}") from error


@lru_cache(maxsize=_CACHED_DIGESTS)
def _sha256_of_unchanged_file(path: Path, _size: int, _changed: int, _inode: int) -> str:
    return compute_file_sha256(path)


def _iter_chunks_and_close(content: BufferedReader) -> Iterator[bytes]:
    with content:
        while chunk := content.read(_CHUNK):
            yield chunk
