"""The connection pool and the clock that the repositories of a ledger share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime

from sqlalchemy import Connection, Engine
from sqlalchemy.orm import Session

from bln_search.storage.clock import Clock, DatabaseClock, read_time_in_session
from bln_search.storage.engine import connect, read_session, write_session
from bln_search.storage.setup_check import describe_database_url


class Database:
    """One database.

    Args:
        engine: Connections to it.
        clock: Clock for the times of events and leases; by default the clock of the database.
    """

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        self.engine = engine
        self.clock = clock or DatabaseClock(engine)

    def __str__(self) -> str:
        """The URL without a password."""
        return describe_database_url(self.engine.url)

    def now(self, session: Session | None = None) -> datetime:
        """The present time; inside a transaction pass its session."""
        return self.clock() if session is None else read_time_in_session(self.clock, session)

    def read_session(self) -> AbstractContextManager[Session]:
        """A session whose reads all see one state of the database."""
        return read_session(self.engine)

    def write_session(self) -> AbstractContextManager[Session]:
        """A session that commits when the block ends and rolls back when it fails."""
        return write_session(self.engine)

    def open_core_connection(self) -> AbstractContextManager[Connection]:
        """A plain connection for a small query that runs with every request."""
        return connect(self.engine)
