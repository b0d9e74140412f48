"""Marker files in a checkpoint store.

Each database that uses a store has two: one is named by the location of the database, so that no other removes its
files; the other is named by the database, so that it recognizes its store (`store_link`).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import CheckpointStoreError

_OWNERSHIP_MARKER = re.compile(r"database-[0-9a-f]{16}\.txt")
_STORE_MARKER = re.compile(r"store-[0-9a-f]{16}\.txt")


def write_ownership_marker(checkpoints: CheckpointStore, database: URL) -> None:
    """Write the marker of a database, unless it exists.

    Raises:
        CheckpointStoreError: The store cannot be written to.
        StorageFullError: No disk space is left.
    """
    location, name = _normalize_database_location(database), ownership_marker_name(database)
    text = f"{location}\nstores trained networks here. While this file exists, no other database removes files here.\n"
    try:
        if not checkpoints.has_file(name):
            checkpoints.write(name, text.encode())
    except OSError as error:
        raise CheckpointStoreError(f"the checkpoint store {checkpoints} cannot be written to: {error}") from error


def is_marker(file_name: str) -> bool:
    """Whether a file of that name is a marker."""
    return any(pattern.fullmatch(file_name) for pattern in (_OWNERSHIP_MARKER, _STORE_MARKER))


def new_store_marker_name() -> str:
    """A name for the file by which a database recognizes its store."""
    return f"store-{secrets.token_hex(8)}.txt"


def ownership_marker_name(database: URL) -> str:
    """The name of the marker of a database, by its location."""
    return f"database-{hashlib.sha256(_normalize_database_location(database).encode()).hexdigest()[:16]}.txt"


def iter_other_owning_databases(checkpoints: CheckpointStore, database: URL) -> Iterator[tuple[str, str]]:
    """The location, without a password, and the marker file of every other database that uses the store."""
    own_marker = ownership_marker_name(database)
    for file in checkpoints.iter_files():
        if _OWNERSHIP_MARKER.fullmatch(file.name) and file.name != own_marker:
            yield checkpoints.read(file.name).decode(errors="replace").partition("\n")[0], file.name


def _normalize_database_location(url: URL) -> str:
    """Location of a database, equal for every spelling of its URL; two names of one host are two locations."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(url.database or ':memory:').absolute().resolve()}"
    return f"{url.get_backend_name()}://{url.host or ''}:{url.port or ''}/{url.database or ''}"
