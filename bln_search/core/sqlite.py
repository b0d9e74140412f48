"""URL, journal mode and lock timeout of SQLite databases."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

SQLITE_TIMEOUT = 30
"""Seconds that SQLite waits for the lock of another connection."""

_SECONDS_BETWEEN_ATTEMPTS = 0.05


def make_sqlite_url(file: Path) -> str:
    """Return the database URL of an SQLite file, whatever characters its path has."""
    return f"sqlite:///{quote(str(file))}"


def set_write_ahead_log(connection: Any) -> None:
    """Let the database of a DBAPI connection write its changes ahead to a log, so that readers do not block writers.

    SQLite does not wait while other connections change the mode of the same database: each would wait for the other.
    This function tries again for up to `SQLITE_TIMEOUT` seconds.

    Raises:
        sqlite3.OperationalError: The database cannot be used, or remains locked.
    """
    deadline = time.monotonic() + SQLITE_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_ATTEMPTS)
        else:
            return
