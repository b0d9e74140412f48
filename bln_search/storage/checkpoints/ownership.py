"""Marker files in a checkpoint store, one for each database that uses it, so that none removes files of another."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import CheckpointStoreError

_MARKER = re.compile(r"database-[0-9a-f]{16}\.txt")


def write_ownership_marker(checkpoints: CheckpointStore, database: URL) -> None:
    """Write the marker of a database, unless it exists.

    Raises:
        CheckpointStoreError: The store cannot be written to.
        StorageFullError: No disk space is left.
    """
    location = _normalize_database_location(database)
    name = _ownership_marker_name(location)
    text = f"{location}\nstores trained networks here. While this file exists, no other database removes files here.\n"
    try:
        if not checkpoints.has_file(name):
            checkpoints.write(name, text.encode())
    except OSError as error:
        raise CheckpointStoreError(f"the checkpoint store {checkpoints} cannot be written to: {error}") from error


def is_ownership_marker(file_name: str) -> bool:
    """Whether a file of that name is a marker."""
    return _MARKER.fullmatch(file_name) is not None


def iter_other_owning_databases(checkpoints: CheckpointStore, database: URL) -> Iterator[tuple[str, str]]:
    """The location, without a password, and the marker file of every other database that uses the store."""
    own_marker = _ownership_marker_name(_normalize_database_location(database))
    for file in checkpoints.iter_files():
        if is_ownership_marker(file.name) and file.name != own_marker:
            yield checkpoints.read(file.name).decode(errors="replace").partition("\n")[0], file.name


def _normalize_database_location(url: URL) -> str:
    """Location of a database, equal for every spelling of its URL; two names of one host are two locations."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(url.database or ':memory:').absolute().resolve()}"
    return f"{url.get_backend_name()}://{url.host or ''}:{url.port or ''}/{url.database or ''}"


def _ownership_marker_name(location: str) -> str:
    return f"database-{hashlib.sha256(location.encode()).hexdigest()[:16]}.txt"
