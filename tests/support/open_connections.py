"""SQLite connections that a test left open.

Only Python 3.13 warns of them, whenever the garbage is collected, so in any later test; here the test that opened one
is named, with every Python.
"""

from __future__ import annotations

import gc
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import dbapi2


class RecordedConnection(sqlite3.Connection):
    """A connection that adds the test that opened it to `left_open` where it is deleted before it is closed."""

    left_open: list[str] | None = None

    def __init__(self, *args, **options):
        self.is_closed, self.test = True, os.environ.get("PYTEST_CURRENT_TEST", "import of a module")
        super().__init__(*args, **options)
        self.is_closed = False

    def close(self):
        super().close()
        self.is_closed = True

    def __del__(self):
        if not self.is_closed:
            self.close()
            if self.left_open is not None:
                self.left_open.append(self.test)


@contextmanager
def record_open_connections() -> Iterator[list[str]]:
    """Yield a list that has, after the block, every test of this process that left a connection open."""
    open_connection, before = dbapi2.connect, RecordedConnection.left_open
    left_open: list[str] = []

    def connect(*args, **options):
        return open_connection(*args, **{"factory": RecordedConnection, **options})

    sqlite3.connect = dbapi2.connect = connect
    RecordedConnection.left_open = left_open
    try:
        yield left_open
    finally:
        gc.collect()
        sqlite3.connect = dbapi2.connect = open_connection
        RecordedConnection.left_open = before
