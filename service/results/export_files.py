"""Archives of exports, verified against their recorded digest before they are sent."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fastapi.responses import FileResponse, Response, StreamingResponse

from bln_search.core.checkpoints import CheckpointStore, FolderStore
from bln_search.core.checkpoints.store import validated_file_name
from bln_search.core.exports import StoredArchive
from bln_search.core.files.private import make_private_folder
from service.results.checkpoint_files import cached_file_sha256

_log = logging.getLogger(__name__)
_CHUNK = 1024 * 1024
MEDIA_TYPE = "application/octet-stream"
"""As for checkpoints: generators of clients do not know `application/zip`."""


class ArchiveMissingOrDamagedError(Exception):
    """The archive is not in the store, or its content has changed."""


def make_archive_response(store: CheckpointStore, archive: StoredArchive, name: str, scratch: Path) -> Response:
    """Return a response that streams an archive as a file.

    Args:
        store: The store of the archive.
        archive: The archive.
        name: Name of the file for the client.
        scratch: Folder with disk space for a copy of an archive in a bucket.

    Raises:
        ArchiveMissingOrDamagedError: The archive is missing or damaged.
        CheckpointStoreError: The store cannot be read.
    """
    try:
        if isinstance(store, FolderStore):
            path = store.path / validated_file_name(archive.file)
            _check_archive_digest(archive, cached_file_sha256(path))
            return FileResponse(path, filename=name, media_type=MEDIA_TYPE, headers=_etag_header(archive))
        return _make_downloaded_archive_response(store, archive, name, scratch)
    except FileNotFoundError:
        raise ArchiveMissingOrDamagedError from None


def _make_downloaded_archive_response(
    store: CheckpointStore, archive: StoredArchive, name: str, scratch: Path
) -> Response:
    """Return a response that streams a copy of an archive in a bucket; the copy has no name any more."""
    make_private_folder(scratch)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".export-") as folder:
        path = Path(folder) / archive.file
        store.download_file(archive.file, path)
        content = path.open("rb")
    try:
        _check_archive_digest(archive, hashlib.file_digest(content, "sha256").hexdigest())
    except BaseException:
        content.close()
        raise
    content.seek(0)
    headers = {
        **_etag_header(archive),
        "Content-Length": str(archive.size),
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return StreamingResponse(_iter_chunks_and_close(content), media_type=MEDIA_TYPE, headers=headers)


def _etag_header(archive: StoredArchive) -> dict[str, str]:
    return {"ETag": f'"{archive.sha256}"'}


def _check_archive_digest(archive: StoredArchive, digest: str) -> None:
    if digest != archive.sha256:
        _log.error("archive %s is damaged: SHA-256 %s, recorded %s", archive.file, digest, archive.sha256)
        raise ArchiveMissingOrDamagedError


def _iter_chunks_and_close(content: BinaryIO) -> Iterator[bytes]:
    with content:
        while chunk := content.read(_CHUNK):
            yield chunk
