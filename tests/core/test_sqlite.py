"""Databases of SQLite that several connections open at once."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from bln_search.core.sqlite import set_write_ahead_log

CONNECTIONS = 4
DATABASES = 30  # without the repeated attempts about one in seven fails


def test_connections_that_change_the_mode_at_once_wait_for_each_other(tmp_path):
    modes: list[str] = []
    for number in range(DATABASES):
        barrier = threading.Barrier(CONNECTIONS)
        threads = [
            threading.Thread(target=append_mode, args=(tmp_path / f"{number}.sqlite3", barrier, modes))
            for _ in range(CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert modes == ["wal"] * (DATABASES * CONNECTIONS)


def append_mode(path, barrier: threading.Barrier, modes: list[str]) -> None:
    connection = sqlite3.connect(path, timeout=10)
    barrier.wait(10)
    set_write_ahead_log(connection)
    modes.append(connection.execute("PRAGMA journal_mode").fetchone()[0])
    connection.close()


def test_a_file_that_is_no_database_is_refused_at_once(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        set_write_ahead_log(connection)
    connection.close()
