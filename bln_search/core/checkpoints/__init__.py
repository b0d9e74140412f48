"""Stores of trained networks: a folder, or a URL that fsspec supports."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from bln_search.core.checkpoints.bucket import BucketStore
from bln_search.core.checkpoints.folder import FolderStore
from bln_search.core.checkpoints.store import CheckpointStore, InvalidFileNameError, StoredFileInfo, check_store_exists

__all__ = [
    "BucketStore",
    "CheckpointStore",
    "FolderStore",
    "InvalidFileNameError",
    "StoredFileInfo",
    "check_store_exists",
    "open_checkpoint_store",
]


def open_checkpoint_store(location: Path | str) -> CheckpointStore:
    """The store at a path or URL, for example `kept`, `file:///srv/kept`, `s3://bucket/folder`."""
    text = str(location)
    if text.startswith("file://"):
        return FolderStore(Path(unquote(text.removeprefix("file://"))))
    return BucketStore(text.rstrip("/")) if "://" in text else FolderStore(Path(text).expanduser())
