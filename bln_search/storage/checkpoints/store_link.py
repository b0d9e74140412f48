"""Which checkpoint store belongs to a database: a row names a marker file that only this store has.

A process with another store, such as one on a host without the shared folder, would run studies whose networks nobody
else finds.
"""

from __future__ import annotations

import socket
from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from bln_search.core.checkpoints import CheckpointStore, FolderStore
from bln_search.core.errors import CheckpointStoreError, WrongCheckpointStoreError
from bln_search.storage.checkpoints.ownership import new_store_marker_name, ownership_marker_name
from bln_search.storage.database import Database
from bln_search.storage.needed_files import read_digests_by_needed_file
from bln_search.storage.tables import AttemptRow, CheckpointStoreRow

_ONLY_ROW = 1
_REMEDY = "mount or share that store, or set BLN_SEARCH_CHECKPOINTS to it"


def check_store(database: Database, checkpoints: CheckpointStore) -> bool:
    """Return whether a store belongs to a database already. Raises WrongCheckpointStoreError where another one does.

    Raises:
        CheckpointStoreError: The store cannot be read, or its folder is missing although trials ran with it. Writing
            would create it in the place of a file system that is not mounted.
    """
    with database.read_session() as session:
        store = session.get(CheckpointStoreRow, _ONLY_ROW)
        has_attempts = session.scalar(select(AttemptRow.id).limit(1)) is not None
    if store is None and has_attempts and not checkpoints.exists():
        raise CheckpointStoreError(
            f"the checkpoint store {checkpoints} does not exist, but trials of the database {database} ran "
            "with one; mount it, or create the folder if its files are lost"
        )
    if store is not None and not checkpoints.has_file(store.marker):
        raise WrongCheckpointStoreError(
            f"the checkpoint store {checkpoints} is not that of the database {database}, which is {store.location}: "
            f"it lacks the file {store.marker}; {_REMEDY}. If its files were moved without this one, or are lost, "
            "create it there, empty"
        )
    return store is not None


def link_store(database: Database, checkpoints: CheckpointStore) -> None:
    """Let a store belong to a database that has none yet; raises as `check_store` for a wrong one.

    Raises:
        CheckpointStoreError: The store cannot be read or written to.
        StorageFullError: No disk space is left.
    """
    if check_store(database, checkpoints):
        return
    with database.read_session() as session:
        needed = read_digests_by_needed_file(session)
    if needed:
        _check_has_network_or_marker(database, checkpoints, needed)
    marker = new_store_marker_name()
    text = f"The database {database} has its trained networks here. Move this file together with them.\n"
    checkpoints.write(marker, text.encode())  # before the row, which would otherwise refuse this store too
    try:
        with database.write_session() as session:
            session.add(CheckpointStoreRow(number=_ONLY_ROW, marker=marker, location=_describe_location(checkpoints)))
    except IntegrityError:  # another process did the same at this moment
        checkpoints.delete(marker)
        check_store(database, checkpoints)


def relink_store(database: Database, checkpoints: CheckpointStore) -> None:
    """Let a store to which the files of a database were restored belong to it; raises as `link_store`."""
    with database.write_session() as session:
        row = session.get(CheckpointStoreRow, _ONLY_ROW)
        if row is not None and not checkpoints.has_file(row.marker):
            session.delete(row)
    link_store(database, checkpoints)


def _check_has_network_or_marker(database: Database, checkpoints: CheckpointStore, needed: Collection[str]) -> None:
    """Raise WrongCheckpointStoreError where nothing shows that the networks of a database are in a store.

    The database comes from a version that did not record its store.
    """
    own_marker = ownership_marker_name(database.engine.url)
    if not any(file.name in needed or file.name == own_marker for file in checkpoints.iter_files()):
        raise WrongCheckpointStoreError(
            f"the checkpoint store {checkpoints} has none of the {len(needed)} networks of the database {database}; "
            f"{_REMEDY}. If they are lost, create the file {own_marker} there, empty"
        )


def _describe_location(checkpoints: CheckpointStore) -> str:
    """Where a store is: its URL, or its folder and this machine."""
    return f"{checkpoints} of {socket.gethostname()}" if isinstance(checkpoints, FolderStore) else str(checkpoints)
