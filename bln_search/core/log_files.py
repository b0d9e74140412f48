"""Log files: each belongs to one process, and all of them together stay within bounds."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path

from bln_search.core.errors import OutputError

if sys.platform != "win32":
    import fcntl

_MOST = 100
"""Processes of one kind that write beside one another."""


@dataclass(frozen=True)
class LogFile:
    """A file that is set aside when it would grow beyond `size` bytes; `older` of those set aside are kept."""

    path: Path
    size: int
    older: int

    def of(self, role: str) -> LogFile:
        """The file of another kind of process, beside this one: bln-search.log of workers is bln-search.worker.log."""
        return replace(self, path=self.path.parent / f"{self.path.stem}.{role}{self.path.suffix}")


def open_log_file(file: LogFile) -> logging.FileHandler:
    """Writes into the file, or where another process does, into the first of NAME.2.EXT, NAME.3.EXT, … that is free.

    Two processes must not write one file: each would set aside what the other is writing. Raises OutputError where none
    can be written.
    """
    if not file.path.name:
        raise OutputError(f"{str(file.path)!r} is no name of a log file; give one with BLN_SEARCH_LOG_FILE")
    try:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MOST + 1):
            one = file if number == 1 else file.of(str(number))
            lock = _lock(one.path.with_name(f".{one.path.name}.lock"))
            if lock is not None:
                return _own(one, lock)
    except OSError as error:
        raise OutputError(
            f"the log file {file.path} cannot be written ({error.strerror}); give another with BLN_SEARCH_LOG_FILE"
        ) from None
    raise OutputError(f"{_MOST} processes write beside {file.path}; give another with BLN_SEARCH_LOG_FILE")


def _own(file: LogFile, lock: int) -> logging.FileHandler:
    try:
        return _OwnFile(file, lock)
    except OSError:
        os.close(lock)
        raise


def _lock(path: Path) -> int | None:
    """A descriptor that keeps others out while it is open, however the process ends; None where another has one."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    if sys.platform != "win32":  # there, an open file cannot be set aside by anybody else
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise
    return descriptor


class _OwnFile(RotatingFileHandler):
    """A file and its lock."""

    def __init__(self, file: LogFile, lock: int) -> None:
        super().__init__(file.path, maxBytes=file.size, backupCount=file.older, encoding="utf-8")
        self._own: int | None = lock

    def close(self) -> None:
        """Give both up."""
        super().close()
        held, self._own = self._own, None
        if held is not None:
            os.close(held)
