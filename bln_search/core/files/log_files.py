"""Rotating log files: each file belongs to one process, and the number and size of all files are bounded."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, replace
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import cast

from bln_search.core.errors import OutputFileError
from bln_search.core.files.private import PRIVATE_FILE, make_private_folder, open_private_descriptor

if sys.platform != "win32":
    import fcntl

_MAX_PROCESSES = 100
"""Largest number of processes of one role that write log files side by side."""


@dataclass(frozen=True)
class LogFileSettings:
    """A log file that is rotated.

    Attributes:
        path: The file.
        size: Bytes at which it is rotated.
        older: Number of rotated files to keep.
    """

    path: Path
    size: int
    older: int

    def with_role_in_file_name(self, role: str) -> LogFileSettings:
        """The file of another role beside this one: the workers' file of bln-search.log is bln-search.worker.log."""
        return replace(self, path=self.path.parent / f"{self.path.stem}.{role}{self.path.suffix}")


def open_first_unlocked_log_handler(file: LogFileSettings) -> logging.FileHandler:
    """Open the file, or the first of NAME.2.EXT, NAME.3.EXT, … that no other process has open.

    Two processes must not share a file: each would rotate the file that the other writes to.

    Raises:
        OutputFileError: No file can be written.
    """
    if not file.path.name:
        raise OutputFileError(f"{str(file.path)!r} is not the name of a log file; give one with BLN_SEARCH_LOG_FILE")
    try:
        make_private_folder(file.path.parent)
        for number in range(1, _MAX_PROCESSES + 1):
            candidate = file if number == 1 else file.with_role_in_file_name(str(number))
            lock = _try_to_lock_file(candidate.path.with_name(f".{candidate.path.name}.lock"))
            if lock is not None:
                return _make_handler_of_locked_file(candidate, lock)
    except OSError as error:
        raise OutputFileError(
            f"the log file {file.path} cannot be written ({error.strerror}); give another with BLN_SEARCH_LOG_FILE"
        ) from None
    raise OutputFileError(f"{_MAX_PROCESSES} processes write beside {file.path}; give another with BLN_SEARCH_LOG_FILE")


def _make_handler_of_locked_file(file: LogFileSettings, lock: int) -> logging.FileHandler:
    try:
        return _LockedRotatingFileHandler(file, lock)
    except OSError:
        os.close(lock)
        raise


def _try_to_lock_file(path: Path) -> int | None:
    """The descriptor of a locked file; the lock ends with the process. None if another process has the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    if sys.platform != "win32":  # on Windows another process cannot rename an open file
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
    return descriptor


class _LockedRotatingFileHandler(RotatingFileHandler):
    """A rotating file and its lock."""

    def __init__(self, file: LogFileSettings, lock: int) -> None:
        super().__init__(file.path, maxBytes=file.size, backupCount=file.older, encoding="utf-8")
        self._lock_descriptor: int | None = lock

    def _open(self) -> TextIOWrapper:
        """Open the file; it is created for its owner alone."""
        file = open(  # noqa: SIM115 - the handler closes it
            self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=open_private_descriptor
        )
        return cast("TextIOWrapper", file)

    def close(self) -> None:
        """Close the file and release the lock."""
        super().close()
        descriptor, self._lock_descriptor = self._lock_descriptor, None
        if descriptor is not None:
            os.close(descriptor)
