"""What a place of checkpoints can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class StoredFile:
    """A file of a store: its name, its size in bytes and when it was written."""

    name: str
    size: int
    written_at: datetime


class CheckpointStore(Protocol):
    """Files by name, flat. A file is named by its content and so never changes; who writes it again changes nothing.

    `str()` of it is the path or URL.
    """

    def read(self, name: str) -> bytes:
        """The content of a file. Raises OSError (FileNotFoundError) or CheckpointStoreError."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all of it or nothing. Raises StorageFullError, OSError or CheckpointStoreError."""

    def delete(self, name: str) -> None:
        """Remove a file; it is no mistake that it is gone already. Raises OSError or CheckpointStoreError."""

    def has(self, name: str) -> bool:
        """Is there a file of that name?"""

    def find(self, name: str) -> StoredFile | None:
        """The file of that name as it is now; None where there is none."""

    def take(self, name: str, source: Path) -> None:
        """Write a file that lies at `source`, all of it or nothing, without holding it in memory. Raises as `write`."""

    def give(self, name: str, target: Path) -> None:
        """Write the content of a file to `target`, without holding it in memory. Raises as `read` and `write`."""

    def files(self) -> Iterator[StoredFile]:
        """Every file, by name. What a writer has not finished has a name that starts with a dot."""

    def free_bytes(self) -> int | None:
        """Room that is left; None where nobody can tell."""

    def check(self) -> None:
        """Raise CheckpointStoreError unless the place takes a file, gives it back and lets it go again."""


def plain(name: str) -> str:
    """A name that leads nowhere else. Raises ValueError for one with a way out of the store."""
    if not name or "/" in name or "\\" in name or name in {".", ".."}:
        raise ValueError(f"{name!r} is no name of a file in a store")
    return name
