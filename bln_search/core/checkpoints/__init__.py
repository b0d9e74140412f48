"""Where trained networks are kept: a folder of this machine, or any place that fsspec knows by its URL."""

from __future__ import annotations

from pathlib import Path

from bln_search.core.checkpoints.bucket import Bucket
from bln_search.core.checkpoints.folder import Folder
from bln_search.core.checkpoints.store import CheckpointStore, StoredFile

__all__ = ["Bucket", "CheckpointStore", "Folder", "StoredFile", "checkpoint_store"]


def checkpoint_store(place: Path | str) -> CheckpointStore:
    """The store at a path or URL as people write it: `kept`, `file:///srv/kept`, `s3://bucket/folder`."""
    text = str(place)
    if "://" not in text:
        return Folder(Path(text))
    return Folder(Path(text.removeprefix("file://"))) if text.startswith("file://") else Bucket(text.rstrip("/"))
