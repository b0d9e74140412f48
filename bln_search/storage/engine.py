"""Connections to SQLite and Postgres that behave alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.orm import Session

from bln_search.core.errors import LedgerError, StorageFullError
from bln_search.core.urls import redact_password

_PATIENCE = {"connect_timeout": 10, "tcp_user_timeout": 30_000}
"""Options of libpq: seconds for a connection, milliseconds for what was sent to be acknowledged."""

_LOCK_SECONDS = 10
"""Postgres gives up waiting for a lock after so long: whoever holds a table must not hold every request with it."""

_READ_ONLY = "25006"
_FULL = "53100"
_UNUSABLE = ("08", _READ_ONLY, "53", "55P03", "57P", "57014")
"""SQLSTATEs, or their beginnings, of a Postgres that cannot do what it is asked just now: connections, read-only,
resources, locks, shutdown and cancellation."""

_LEFT = ("08", _READ_ONLY, "57P")
"""Those after which every pooled connection is given up: another server, or this one in another state, may be there."""

_CHECK = "check_before_writing"

_REBUILDING = 0x626C6E
"""Of all databases of bln-search: the number of Postgres' lock for whoever rebuilds tables."""


def make_engine(url: str) -> Engine:
    """An engine for `url`. SQLite: WAL, foreign keys on, writers wait for one another."""
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except ImportError as error:
        raise LedgerError(
            f"the database {url.split(':', maxsplit=1)[0]} needs a driver that is not installed: {error}"
        ) from None
    except (ArgumentError, ValueError):
        raise LedgerError(
            f"{redact_password(url)!r} is not a database URL; write sqlite:///path/to/file.sqlite3 or postgresql+psycopg://host/name"
        ) from None
    if parsed.get_backend_name() != "sqlite":
        engine = create_engine(parsed, pool_pre_ping=True, connect_args=_patience(parsed))
        event.listen(engine, "handle_error", _leave_server)
        if parsed.get_backend_name() == "postgresql" and "lock_timeout" not in str(parsed.query.get("options", "")):
            event.listen(engine, "connect", _limit_waiting)
        return engine
    if parsed.database and parsed.database != ":memory:":
        _make_folder(Path(parsed.database).parent)
    engine = create_engine(parsed, connect_args={"timeout": 30})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _patience(url: URL) -> dict[str, int]:
    """A server that does not answer is given up after so long, rather than waited for; what the URL says holds."""
    given = _PATIENCE if url.get_driver_name() in ("psycopg", "psycopg2") else {}
    return {name: value for name, value in given.items() if name not in url.query}


def _limit_waiting(connection: Any, _record: Any) -> None:
    """For every transaction of the connection: outside of one, as its end would take the setting back."""
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute(f"SET SESSION lock_timeout = '{_LOCK_SECONDS}s'")
    cursor.close()
    connection.autocommit = False


def _leave_server(context: ExceptionContext) -> None:
    """A server that became read-only, or ends, is not asked again over the same connections."""
    if _sqlstate(context.original_exception).startswith(_LEFT):
        context.is_disconnect = True


def _sqlstate(error: BaseException | None) -> str:
    """The five characters by which Postgres classes an error; empty where the driver gives none."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"the folder {folder} of the database cannot be made ({error.strerror}); give another with --database"
        ) from None


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # SQLAlchemy's "begin" event says how a transaction starts
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("rebuilding", False):
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writing", False) else "BEGIN")


@contextmanager
def read_session(engine: Engine) -> Iterator[Session]:
    """A session whose reads all see one state of the database."""
    with _plain_errors(engine), Session(engine) as session:
        yield session


@contextmanager
def snapshot_connection(engine: Engine) -> Iterator[Connection]:
    """A connection that sees the whole database as it is at one moment, however long it reads; writers go on."""
    with _plain_errors(engine), engine.connect() as plain:
        if plain.dialect.name != "sqlite":
            plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with plain.begin():
            yield plain


@contextmanager
def connect(engine: Engine) -> Iterator[Connection]:
    """A plain connection for one small question that is asked with every request."""
    with _plain_errors(engine), engine.connect() as connection:
        yield connection


@contextmanager
def write_session(engine: Engine) -> Iterator[Session]:
    """A session whose writes are kept together when the block ends, and dropped together when it fails.

    What `check_before_writing` was given is called first; nothing is written where it raises.
    """
    check: Callable[[Session], None] | None = engine.get_execution_options().get(_CHECK)
    with _plain_errors(engine), Session(engine.execution_options(writing=True)) as session, session.begin():
        if check is not None:
            check(session)
        yield session


def check_before_writing(engine: Engine, check: Callable[[Session], None]) -> None:
    """Have `check` called in every transaction that writes, before it does."""
    engine.update_execution_options(**{_CHECK: check})


@contextmanager
def schema_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that may rebuild tables; where there is one, the next waits for its end.

    On SQLite, dropping a table does not take the rows along that refer to it.
    """
    with _plain_errors(engine), engine.connect() as plain:
        connection = plain.execution_options(writing=True, rebuilding=True)
        sqlite = connection.dialect.name == "sqlite"
        try:
            with connection.begin():
                if not sqlite:
                    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
                    connection.execute(select(func.pg_advisory_xact_lock(_REBUILDING)))
                yield connection
                if sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                    raise LedgerError("the upgrade would leave rows that refer to nothing; nothing was changed")
        finally:
            if sqlite:
                connection.connection.execute("PRAGMA foreign_keys=ON")


@contextmanager
def _plain_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except NoConnectionError as error:
        raise LedgerError(f"the database {_place(engine)} cannot be used: no connection is free") from error
    except DBAPIError as error:
        plain = _plain(error, engine)
        if plain is None:
            raise
        raise plain from error


def _plain(error: DBAPIError, engine: Engine) -> LedgerError | StorageFullError | None:
    """What an error of the driver means; None for one that is not the database's fault."""
    place = _place(engine)
    reason, state = (str(error.orig).splitlines() or ["without a reason"])[0], _sqlstate(error.orig)
    operational = isinstance(error, OperationalError)
    if state == _FULL or (operational and ("full" in reason or "No space left" in reason)):
        return StorageFullError(
            f"no room left to write the database {place}: free some space and run the same command again; "
            "what was finished is kept"
        )
    if not operational and ("not a database" in reason or "malformed" in reason):
        return LedgerError(f"{place} is not a database of bln-search: {reason}; give another with --database")
    closed = isinstance(error, InterfaceError) and engine.dialect.name != "sqlite"  # of SQLite: a value it cannot take
    lost = error.connection_invalidated or closed
    if operational or lost or state.startswith(_UNUSABLE):
        return LedgerError(f"the database {place} cannot be used: {reason}")
    return None


def _place(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)
