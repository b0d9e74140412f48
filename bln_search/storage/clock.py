"""The clock of the database, by which leases expire, because the clocks of several machines differ."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.orm import Session

from bln_search.storage.engine import connect

Clock = Callable[[], datetime]


class DatabaseClock:
    """Reads the clock of the database."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __call__(self) -> datetime:
        """The time, read over a new connection; inside a transaction use `read_time_in_session`."""
        if self.engine.dialect.name == "sqlite":
            return _read_process_clock()
        with connect(self.engine) as connection:
            return read_database_time(connection)


def read_time_in_session(clock: Clock, session: Session) -> datetime:
    """The time by `clock`; a DatabaseClock is read over the connection of the session."""
    return read_database_time(session.connection()) if isinstance(clock, DatabaseClock) else clock()


def read_database_time(connection: Connection) -> datetime:
    """The present time by the clock of the database, not the time at which the transaction began."""
    if connection.dialect.name == "sqlite":
        return _read_process_clock()
    now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return now.astimezone(UTC)


def _read_process_clock() -> datetime:
    """The clock of this process, which SQLite uses too.

    All processes that open the file run on one machine and share its clock. Containers do as well, because Linux time
    namespaces do not change the time of day.
    """
    return datetime.now(UTC)
