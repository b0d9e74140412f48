"""Which databases keep networks in a place: a small file there for each, so that none takes another's for left over."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Engine

from bln_search.core.checkpoints import CheckpointStore
from bln_search.core.errors import CheckpointStoreError

_MARK = re.compile(r"database-[0-9a-f]{16}\.txt")


def mark(checkpoints: CheckpointStore, engine: Engine) -> None:
    """Leave word in a place of checkpoints that this database names files there.

    Raises CheckpointStoreError where nothing can be written, StorageFullError where no room is left.
    """
    place = _place(engine)
    name = _name(place)
    text = f"{place}\nkeeps trained networks here. While this file is there, no other database cleans this place.\n"
    try:
        if not checkpoints.has(name):
            checkpoints.write(name, text.encode())
    except OSError as error:
        raise CheckpointStoreError(f"{checkpoints}, where networks are kept, cannot be written to: {error}") from None


def is_mark(name: str) -> bool:
    """Is a file of that name such a word?"""
    return _MARK.fullmatch(name) is not None


def other_databases(checkpoints: CheckpointStore, engine: Engine) -> Iterator[tuple[str, str]]:
    """The other databases that keep networks there: the place of each, without a password, and its file's name."""
    own = _name(_place(engine))
    for one in checkpoints.files():
        if is_mark(one.name) and one.name != own:
            yield checkpoints.read(one.name).decode(errors="replace").partition("\n")[0], one.name


def _place(engine: Engine) -> str:
    """Where a database is, the same however its URL was written; two names of one host are two places."""
    url = engine.url
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(url.database or ':memory:').absolute().resolve()}"
    return f"{url.get_backend_name()}://{url.host or ''}:{url.port or ''}/{url.database or ''}"


def _name(place: str) -> str:
    return f"database-{hashlib.sha256(place.encode()).hexdigest()[:16]}.txt"
