"""A checkpoint store in a folder of this machine, or in a folder that several machines share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bln_search.core.checkpoints.store import StoredFileInfo, validated_file_name
from bln_search.core.files.atomic import copy_atomically, write_atomically
from bln_search.core.files.disk import measure_disk_usage


@dataclass(frozen=True)
class FolderStore:
    """A folder; the first write creates it."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises OSError."""
        return (self.path / validated_file_name(name)).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically. Raises StorageFullError or OSError."""
        write_atomically(self.path / validated_file_name(name), content)

    def delete(self, name: str) -> None:
        """Delete a file if it exists. Raises OSError."""
        (self.path / validated_file_name(name)).unlink(missing_ok=True)

    def has_file(self, name: str) -> bool:
        """Is there a file of that name?"""
        return (self.path / validated_file_name(name)).is_file()

    def find_file_info(self, name: str) -> StoredFileInfo | None:
        """Size and time of a file; None if it does not exist."""
        path = self.path / validated_file_name(name)
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        written_at = datetime.fromtimestamp(status.st_mtime, UTC)
        return StoredFileInfo(path.name, status.st_size, written_at) if path.is_file() else None

    def upload_file(self, name: str, source: Path) -> None:
        """Copy the file `source` into the folder atomically. Raises StorageFullError or OSError."""
        copy_atomically(source, self.path / validated_file_name(name))

    def download_file(self, name: str, target: Path) -> None:
        """Copy a file to `target`. Raises StorageFullError or OSError."""
        copy_atomically(self.path / validated_file_name(name), target)

    def iter_files(self) -> Iterator[StoredFileInfo]:
        """Every file in the order of names."""
        for path in sorted(self.path.iterdir()) if self.path.is_dir() else ():
            file = self.find_file_info(path.name)
            if file is not None:  # otherwise a temporary file that its writer has renamed meanwhile
                yield file

    def find_free_bytes(self) -> int:
        """Free bytes of its disk."""
        return measure_disk_usage(self.path).free

    def check_read_and_write_access(self) -> None:
        """Do nothing: writing reports the problems of a folder."""
