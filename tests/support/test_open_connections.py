"""A test that leaves a connection to SQLite open is named, with every Python."""

from __future__ import annotations

import sqlite3

from sqlalchemy import create_engine, text

from tests.support.open_connections import record_open_connections


def read_one(engine):
    with engine.connect() as connection:
        return connection.execute(text("SELECT 1")).scalar()


def test_a_test_that_leaves_a_connection_open_is_named():
    with record_open_connections() as left_open:
        sqlite3.connect(":memory:").close()
        closed = create_engine("sqlite://")
        assert read_one(closed) == 1
        closed.dispose()
    assert left_open == []
    with record_open_connections() as left_open:
        assert read_one(create_engine("sqlite://")) == 1  # its pool keeps the connection
    assert len(left_open) == 1
    assert "test_a_test_that_leaves_a_connection_open_is_named" in left_open[0]
