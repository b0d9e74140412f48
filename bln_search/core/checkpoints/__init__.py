"""Stores of trained networks: a folder, or a URL that fsspec supports."""

from __future__ import annotations

from pathlib import Path

from bln_search.core.checkpoints.bucket import Bucket
from bln_search.core.checkpoints.folder import Folder
from bln_search.core.checkpoints.store import CheckpointStore, StoredFile

__all__ = ["Bucket", "CheckpointStore", "Folder", "StoredFile", "checkpoint_store"]


def checkpoint_store(location: Path | str) -> CheckpointStore:
    """The store at a path or URL, for example `kept`, `file:///srv/kept`, `s3://bucket/folder`."""
    text = str(location)
    if "://" not in text:
        return Folder(Path(text))
    return Folder(Path(text.removeprefix("file://"))) if text.startswith("file://") else Bucket(text.rstrip("/"))
