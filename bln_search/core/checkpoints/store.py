"""The protocol of a checkpoint store."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from bln_search.core.errors import CheckpointStoreError

_LONGEST_NAME = 200
"""Bytes of a file name: file systems allow 255, of which a temporary name beside it needs some."""

_TEST_CONTENT = b"bln-search was here"


@dataclass(frozen=True)
class StoredFileInfo:
    """A file of a store: its name, its size in bytes and the time of its last write."""

    name: str
    size: int
    written_at: datetime


class CheckpointStore(Protocol):
    """A flat set of files. A file is named by the hash of its content, so writing it again changes nothing.

    `str()` of a store is its path or URL, without a password.
    """

    def read(self, name: str) -> bytes:
        """The content of a file. Raises OSError (FileNotFoundError) or CheckpointStoreError."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically. Raises StorageFullError, OSError or CheckpointStoreError."""

    def delete(self, name: str) -> None:
        """Delete a file if it exists. Raises OSError or CheckpointStoreError."""

    def has_file(self, name: str) -> bool:
        """Is there a file of that name? Raises CheckpointStoreError."""

    def find_file_info(self, name: str) -> StoredFileInfo | None:
        """Size and time of a file; None if it does not exist. Raises CheckpointStoreError."""

    def upload_file(self, name: str, source: Path) -> None:
        """Copy the file `source` into the store atomically, without loading it into memory. Raises as `write`."""

    def download_file(self, name: str, target: Path) -> None:
        """Copy a file to `target` without loading it into memory. Raises as `read` and `write`."""

    def iter_files(self) -> Iterator[StoredFileInfo]:
        """Every file in the order of names. Names of incomplete files start with a dot."""

    def find_free_bytes(self) -> int | None:
        """Free bytes; None if they are unknown."""

    def exists(self) -> bool:
        """Whether the folder exists; True for a bucket. Raises CheckpointStoreError."""

    def check_read_and_write_access(self) -> None:
        """Raise CheckpointStoreError unless a file can be written, read and deleted."""


class InvalidFileNameError(FileNotFoundError, ValueError):
    """The name, as from a damaged database, is not that of a file in a store: no store has such a file."""


def validated_file_name(name: str) -> str:
    """Return the name. Raises InvalidFileNameError for a name with a path, which could lead out of the store."""
    if name in {"", ".", ".."} or any(character in name for character in "/\\\0") or len(name.encode()) > _LONGEST_NAME:
        raise InvalidFileNameError(f"{name!r} is not the name of a file in a store: give a name without a path")
    return name


def check_store_exists(store: CheckpointStore) -> None:
    """Raise CheckpointStoreError where the folder of a store, whose file was not found, is missing altogether."""
    if not store.exists():
        raise CheckpointStoreError(
            f"the checkpoint store {store} does not exist: mount it, or create the folder if its files are lost"
        )


def check_read_and_write_access(store: CheckpointStore, read: Callable[[str], bytes]) -> None:
    """Raise CheckpointStoreError unless a file can be written to the store, read with `read` and deleted."""
    name = f".check-{secrets.token_hex(8)}"
    store.write(name, _TEST_CONTENT)
    try:
        content = read(name)
    except FileNotFoundError:
        content = b""
    finally:
        store.delete(name)
    if content != _TEST_CONTENT:
        raise CheckpointStoreError(f"{store} returns another content than was written")
