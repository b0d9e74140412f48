"""The time by which leases are counted: the database's, whatever the clocks of the processes say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.orm import Session

from bln_search.storage.engine import connect

Clock = Callable[[], datetime]


class DatabaseClock:
    """Asks the database for the time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __call__(self) -> datetime:
        """Over a connection of its own; within a transaction, `time_within` asks over that of the session."""
        if self.engine.dialect.name == "sqlite":
            return _own_time()
        with connect(self.engine) as connection:
            return database_time(connection)


def time_within(clock: Clock, session: Session) -> datetime:
    """The time by `clock`, which is asked over the session's connection where it is that of the database."""
    return database_time(session.connection()) if isinstance(clock, DatabaseClock) else clock()


def database_time(connection: Connection) -> datetime:
    """The time by the database's clock at this moment, not at the beginning of the transaction."""
    if connection.dialect.name == "sqlite":
        return _own_time()
    now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)


def _own_time() -> datetime:
    """SQLite is a library: it has the clock of the process, and its own functions read that one, too.

    All processes on its file are on one machine and share that clock; containers as well, as Linux' time namespaces
    leave the time of day alone.
    """
    return datetime.now(UTC)
