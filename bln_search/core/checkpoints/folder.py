"""A checkpoint store in a folder of this machine, or in a folder that several machines share."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG

from bln_search.core.checkpoints.store import StoredFileInfo, check_read_and_write_access, validated_file_name
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.files.atomic import copy_atomically, write_atomically
from bln_search.core.files.disk import measure_disk_usage

_ERRNOS_OF_FILE = frozenset({errno.ENOENT, errno.EISDIR, errno.ENAMETOOLONG})
"""errno values that concern one file: the folder itself works."""


@dataclass(frozen=True)
class FolderStore:
    """A folder; the first write creates it.

    An error of the file system that concerns the folder, not one file, is a CheckpointStoreError: it passes when the
    folder is mounted or may be written to again.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError, OSError for a damaged file, or CheckpointStoreError."""
        path = self.path / validated_file_name(name)
        try:
            return path.read_bytes()
        except OSError as error:
            if error.errno in _ERRNOS_OF_FILE:
                raise
            self.check_read_and_write_access()  # raises where the folder has the fault
            return path.read_bytes()  # otherwise the file has it

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically. Raises StorageFullError, OSError for an impossible name, or CheckpointStoreError."""
        path = self.path / validated_file_name(name)
        with self._raise_as_store_errors("written to"):
            write_atomically(path, content)

    def delete(self, name: str) -> None:
        """Delete a file if it exists. Raises OSError or CheckpointStoreError."""
        path = self.path / validated_file_name(name)
        with self._raise_as_store_errors("deleted from"):
            path.unlink(missing_ok=True)

    def has_file(self, name: str) -> bool:
        """Is there a file of that name? Raises CheckpointStoreError."""
        return self.find_file_info(name) is not None

    def find_file_info(self, name: str) -> StoredFileInfo | None:
        """Size and time of a file; None if it does not exist. Raises CheckpointStoreError."""
        path = self.path / validated_file_name(name)
        try:
            with self._raise_as_store_errors("read"):
                status = path.stat()
        except OSError:
            return None
        written_at = datetime.fromtimestamp(status.st_mtime, UTC)
        return StoredFileInfo(path.name, status.st_size, written_at) if S_ISREG(status.st_mode) else None

    def upload_file(self, name: str, source: Path) -> None:
        """Copy the file `source` into the folder atomically. Raises as `write`, and OSError for `source`."""
        path = self.path / validated_file_name(name)
        with source.open("rb"), self._raise_as_store_errors("written to"):
            copy_atomically(source, path)

    def download_file(self, name: str, target: Path) -> None:
        """Copy a file to `target`. Raises FileNotFoundError, CheckpointStoreError, StorageFullError or OSError."""
        path = self.path / validated_file_name(name)
        with self._raise_as_store_errors("read"):
            path.open("rb").close()
        copy_atomically(path, target)

    def iter_files(self) -> Iterator[StoredFileInfo]:
        """Every file in the order of names. Raises CheckpointStoreError."""
        with self._raise_as_store_errors("listed"):
            paths = sorted(self.path.iterdir()) if self.exists() else []
        for path in paths:
            file = self.find_file_info(path.name)
            if file is not None:  # otherwise a temporary file that its writer has renamed meanwhile
                yield file

    def find_free_bytes(self) -> int:
        """Free bytes of its disk."""
        return measure_disk_usage(self.path).free

    def exists(self) -> bool:
        """Whether the folder exists."""
        try:
            with self._raise_as_store_errors("read"):
                self.path.stat()
        except FileNotFoundError:
            return False
        return True

    def check_read_and_write_access(self) -> None:
        """Raise CheckpointStoreError unless a file can be written, read and deleted."""
        check_read_and_write_access(self, self._read_once)

    def _read_once(self, name: str) -> bytes:
        """The content of a file. Unlike `read`, this does not check the folder after an error."""
        with self._raise_as_store_errors("read"):
            return (self.path / name).read_bytes()

    @contextmanager
    def _raise_as_store_errors(self, action: str) -> Iterator[None]:
        """Translate errors of the folder into CheckpointStoreError; errors of one file remain."""
        try:
            yield
        except OSError as error:
            if error.errno in _ERRNOS_OF_FILE:
                raise
            raise CheckpointStoreError(
                f"the checkpoint store {self} cannot be {action} ({error.strerror or error}): check that it is mounted "
                "and that this user may read and write it"
            ) from error
