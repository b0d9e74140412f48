"""The connection pool and the clock that the repositories of a ledger share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, Engine, ExceptionContext, event, func, select
from sqlalchemy.orm import Session

from bln_search.storage.engine import connect, read_session, write_session
from bln_search.storage.leases import LeaseClock
from bln_search.storage.setup_check import describe_database_url


class Database:
    """One database.

    Args:
        engine: Connections to it.
        clock: Clock of events and leases; by default that of the database, because those of several machines differ.

    Attributes:
        lease_clock: Decides which leases hold.
    """

    def __init__(self, engine: Engine, clock: Callable[[], datetime] | None = None) -> None:
        self.engine = engine
        self.clock = clock or self.read_clock
        self.lease_clock = LeaseClock()
        event.listen(engine, "handle_error", self._note_disconnection)

    def _note_disconnection(self, context: ExceptionContext) -> None:
        if context.is_disconnect or context.connection is None:  # an error before there is a connection
            self.lease_clock.note_disconnection()

    def __str__(self) -> str:
        """The URL without a password."""
        return describe_database_url(self.engine.url)

    def find_file_identity(self) -> tuple[int, int] | None:
        """Device and inode number of an SQLite file; None if it does not exist, and for other databases."""
        if self.engine.dialect.name != "sqlite" or not self.engine.url.database:
            return None
        try:
            status = Path(self.engine.url.database).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def now(self, session: Session | None = None) -> datetime:
        """The present time, not that at which a transaction began; inside a transaction pass its session."""
        if session is None or self.clock != self.read_clock:
            return self.clock()
        return self.read_clock(session.connection())

    def read_clock(self, connection: Connection | None = None) -> datetime:
        """The time of the database, read over a new connection by default.

        SQLite uses the clock of this process: all processes that open the file run on one machine and share its clock.
        Containers do as well, because Linux time namespaces do not change the time of day.
        """
        if self.engine.dialect.name == "sqlite":
            now = datetime.now(UTC)
        elif connection is None:
            with self.open_core_connection() as new_connection:
                return self.read_clock(new_connection)
        else:
            now = connection.execute(select(func.clock_timestamp())).scalar_one().astimezone(UTC)
        self.lease_clock.note(now)
        return now

    def read_session(self) -> AbstractContextManager[Session]:
        """A session whose reads all see one state of the database."""
        return read_session(self.engine)

    def write_session(self) -> AbstractContextManager[Session]:
        """A session that commits when the block ends and rolls back when it fails."""
        return write_session(self.engine)

    def open_core_connection(self) -> AbstractContextManager[Connection]:
        """A plain connection for a small query that runs with every request."""
        return connect(self.engine)
