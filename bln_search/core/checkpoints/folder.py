"""Checkpoints in a folder of this machine, or one that several machines share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bln_search.core.checkpoints.store import StoredFile, plain
from bln_search.core.files import copy_whole, write_whole


@dataclass(frozen=True)
class Folder:
    """A folder; it is made when the first file is written."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises OSError."""
        return (self.path / plain(name)).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all of it or nothing. Raises StorageFullError, or OSError for what else is in the way."""
        write_whole(self.path / plain(name), content)

    def delete(self, name: str) -> None:
        """Remove a file, if it is there. Raises OSError."""
        (self.path / plain(name)).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        """Is there a file of that name?"""
        return (self.path / plain(name)).is_file()

    def find(self, name: str) -> StoredFile | None:
        """The file of that name as it is now; None where there is none."""
        path = self.path / plain(name)
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        written_at = datetime.fromtimestamp(found.st_mtime, UTC)
        return StoredFile(path.name, found.st_size, written_at) if path.is_file() else None

    def take(self, name: str, source: Path) -> None:
        """Write a file that lies at `source`, all of it or nothing. Raises StorageFullError or OSError."""
        copy_whole(source, self.path / plain(name))

    def give(self, name: str, target: Path) -> None:
        """Write the content of a file to `target`. Raises StorageFullError or OSError."""
        copy_whole(self.path / plain(name), target)

    def files(self) -> Iterator[StoredFile]:
        """Every file, by name."""
        for path in sorted(self.path.iterdir()) if self.path.is_dir() else ():
            found = self.find(path.name)
            if found is not None:  # else its writer has finished it meanwhile, under its real name
                yield found

    def free_bytes(self) -> int:
        """Room that is left on its disk."""
        return self.disk()[1]

    def disk(self) -> tuple[int, int]:
        """Size and free bytes of the disk it is on, or would be."""
        usage = shutil.disk_usage(next(one for one in (self.path, *self.path.absolute().parents) if one.exists()))
        return usage.total, usage.free

    def check(self) -> None:
        """Nothing: what is wrong with a folder is said when it is written to."""
