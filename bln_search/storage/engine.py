"""Connections to SQLite and Postgres that behave alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.orm import Session

from bln_search.core.credentials import redact_secrets
from bln_search.core.errors import LedgerError, MissingPackageError, StorageFullError
from bln_search.core.files.private import make_private_file, make_private_folder
from bln_search.core.sqlite import SQLITE_TIMEOUT, set_write_ahead_log
from bln_search.core.urls import redact_password
from bln_search.storage.setup_check import check_encodings, check_url_options, describe_database_url

_CONNECT_OPTIONS: dict[str, int | str] = {
    "connect_timeout": 10,
    "tcp_user_timeout": 30_000,
    "client_encoding": "utf8",
}
"""Options of libpq: seconds until a connection must exist, milliseconds until sent data must be acknowledged, and the
encoding of texts, which the environment or a role could set to another."""

_LOCK_TIMEOUT = 10
"""Seconds after which a statement of Postgres stops waiting for a lock: a locked table must not block all requests."""

_READ_ONLY = "25006"
_DISK_FULL = "53100"
_UNDEFINED_TABLE = "42P01"
_INSUFFICIENT_PRIVILEGE = "42501"
_UNAVAILABLE = ("08", _READ_ONLY, "53", "55P03", "57P", "57014")
"""Prefixes of the SQLSTATEs of a Postgres that is temporarily unavailable: connections, read-only, resources, locks,
shutdown and cancellation."""

_SERVER_LOST = ("08", _READ_ONLY, "57P")
"""Prefixes of SQLSTATEs after which all pooled connections are closed: a new connection may reach another server."""

_CHECK_OPTION = "register_write_check"
"""Execution option of an engine that holds the function of `register_write_check`."""

_SCHEMA_LOCK = 0x626C6E
"""Key of the Postgres advisory lock of a schema transaction; the same in every database of bln-search."""


_URL_FORMS = "write sqlite:///path/to/file.sqlite3 or postgresql+psycopg://host/name"


def make_engine(url: str) -> Engine:
    """An engine for `url`.

    SQLite has write-ahead logging and foreign keys; writers wait for one another.

    Raises:
        LedgerError: The URL is invalid, its driver is not installed, or the folder of the file cannot be created.
        MissingPackageError: The driver of the extra `postgres` is not installed.
    """
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except ImportError as error:
        if error.name == "psycopg":
            raise MissingPackageError("psycopg", "postgres") from None
        scheme = url.split(":", maxsplit=1)[0]
        raise LedgerError(
            f"the database {scheme} needs a driver that is not installed ({error}); {_URL_FORMS}"
        ) from None
    except (ArgumentError, ValueError):
        raise LedgerError(f"{redact_password(url)!r} is not a database URL; {_URL_FORMS}") from None
    check_url_options(parsed)
    if parsed.get_backend_name() != "sqlite":
        engine = _create_engine(parsed, pool_pre_ping=True, connect_args=_make_default_connect_options(parsed))
        if parsed.get_driver_name() == "psycopg":
            # before SQLAlchemy reads the version of the server, which it cannot in another encoding
            event.listen(
                engine, "connect", lambda connection, _record: check_encodings(connection, parsed), insert=True
            )
        event.listen(engine, "handle_error", _disconnect_from_lost_server)
        if parsed.get_backend_name() == "postgresql" and "lock_timeout" not in str(parsed.query.get("options", "")):
            event.listen(engine, "begin", _set_lock_timeout_of_transaction)
        return engine
    if parsed.database and parsed.database != ":memory:" and not parsed.database.startswith("file:"):
        file = os.path.expanduser(parsed.database)  # noqa: PTH111 - a pathlib.Path would change `file:` URIs
        parsed = parsed.set(database=file)
        _create_private_file_and_folder(Path(file))
    engine = _create_engine(parsed, connect_args={"timeout": SQLITE_TIMEOUT})
    event.listen(engine, "connect", _set_sqlite_pragmas)
    event.listen(engine, "begin", _begin_sqlite_transaction)
    return engine


def _create_engine(url: URL, **options: Any) -> Engine:
    """An engine. Raises LedgerError where an option of the URL has an invalid value."""
    try:
        return create_engine(url, **options)
    except (ArgumentError, ValueError) as error:
        raise LedgerError(f"the database {describe_database_url(url)} has an invalid option: {error}") from None


def _make_default_connect_options(url: URL) -> dict[str, int | str | None]:
    """Timeouts for a server that does not respond, and the encoding, except those that the URL sets.

    psycopg prepares no statement: behind a pool such as PgBouncer another client may have one of the same name.
    Prepared statements would seldom be used: psycopg forgets them when a connection returns to SQLAlchemy's pool.
    """
    options = _CONNECT_OPTIONS if url.get_driver_name() in ("psycopg", "psycopg2") else {}
    given = {name: value for name, value in options.items() if name not in url.query}
    return {**given, "prepare_threshold": None} if url.get_driver_name() == "psycopg" else {**given}


def _set_lock_timeout_of_transaction(connection: Connection) -> None:
    """Set the lock timeout of a transaction: a pool such as PgBouncer would give a session's to other clients."""
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}s'")


def _disconnect_from_lost_server(context: ExceptionContext) -> None:
    """Close all pooled connections to a server that became read-only or shuts down."""
    if _read_sqlstate(context.original_exception).startswith(_SERVER_LOST):
        context.is_disconnect = True


def _read_sqlstate(error: BaseException | None) -> str:
    """The SQLSTATE of an error of Postgres, five characters; empty where the driver provides none."""
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or ""


def _create_private_file_and_folder(file: Path) -> None:
    """Create the file of a database, and its folder, for their owner alone; SQLite's files beside it are like it."""
    try:
        make_private_folder(file.parent)
    except OSError as error:
        raise LedgerError(
            f"the folder {file.parent} of the database cannot be created ({error.strerror}); give another with "
            "--database"
        ) from None
    with suppress(OSError):  # the connection reports it
        make_private_file(file)


def _set_sqlite_pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # _begin_sqlite_transaction begins transactions
    set_write_ahead_log(connection)
    for pragma in ("foreign_keys=ON", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite_transaction(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("rebuilding", False):
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writing", False) else "BEGIN")


@contextmanager
def read_session(engine: Engine) -> Iterator[Session]:
    """A session whose reads all see the same state of the database."""
    with _translate_driver_errors(engine), Session(engine) as session:
        yield session


@contextmanager
def consistent_read_connection(engine: Engine) -> Iterator[Connection]:
    """A connection that reads one consistent state of the whole database; it does not block writers."""
    with _translate_driver_errors(engine), engine.connect() as connection:
        if connection.dialect.name != "sqlite":
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            yield connection


@contextmanager
def connect(engine: Engine) -> Iterator[Connection]:
    """A connection without an ORM session, for a small query that runs with every request."""
    with _translate_driver_errors(engine), engine.connect() as connection:
        yield connection


@contextmanager
def write_session(engine: Engine) -> Iterator[Session]:
    """A session that commits when the block ends and rolls back when it raises.

    The function of `register_write_check` is called first; nothing is written where it raises.
    """
    check: Callable[[Session], None] | None = engine.get_execution_options().get(_CHECK_OPTION)
    with _translate_driver_errors(engine), Session(engine.execution_options(writing=True)) as session, session.begin():
        if check is not None:
            check(session)
        yield session


def register_write_check(engine: Engine, check: Callable[[Session], None]) -> None:
    """Call `check` at the beginning of every later transaction that writes."""
    engine.update_execution_options(**{_CHECK_OPTION: check})


@contextmanager
def schema_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that may rebuild tables. Schema transactions wait for one another.

    On SQLite foreign keys are off, so that dropping a table does not delete the rows that refer to it.

    Raises:
        LedgerError: A row would refer to a row that does not exist; the transaction is rolled back.
    """
    with _translate_driver_errors(engine), engine.connect() as plain_connection:
        connection = plain_connection.execution_options(writing=True, rebuilding=True)
        is_sqlite = connection.dialect.name == "sqlite"
        try:
            with connection.begin():
                if not is_sqlite:
                    connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
                    connection.execute(select(func.pg_advisory_xact_lock(_SCHEMA_LOCK)))
                yield connection
                if is_sqlite and connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                    raise LedgerError("the upgrade would leave rows that refer to missing rows; nothing was changed")
        finally:
            if is_sqlite:
                connection.connection.execute("PRAGMA foreign_keys=ON")


@contextmanager
def _translate_driver_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except NoConnectionError as error:
        raise LedgerError(
            f"the database {describe_database_url(engine.url)} cannot be used: no connection is free"
        ) from error
    except DBAPIError as error:
        translated = _find_ledger_error_for(error, engine)
        if translated is None:
            raise
        raise translated from error


def _find_ledger_error_for(error: DBAPIError, engine: Engine) -> LedgerError | StorageFullError | None:
    """The error that stands for an error of the driver; None where the fault is in the statement."""
    location = describe_database_url(engine.url)
    reason, state = (
        redact_secrets((str(error.orig).splitlines() or ["without a reason"])[0]),
        _read_sqlstate(error.orig),
    )
    operational = isinstance(error, OperationalError)
    if state == _DISK_FULL or (operational and ("full" in reason or "No space left" in reason)):
        return StorageFullError(
            f"no disk space left to write the database {location}: free some and run the same command again; "
            "finished results are stored"
        )
    if not operational and ("not a database" in reason or "malformed" in reason):
        return LedgerError(f"{location} is not a database of bln-search: {reason}; give another with --database")
    if state == _UNDEFINED_TABLE or (operational and "no such table" in reason):
        return LedgerError(
            f"the database {location} lacks tables of this version of bln-search: check that it is the right one; "
            "`bln-search db upgrade` creates them"
        )
    if state == _INSUFFICIENT_PRIVILEGE:
        return LedgerError(
            f"the database {location} refuses its role: {reason}; as its owner, grant the role the rights to create, "
            "read and write the tables"
        )
    # SQLite raises InterfaceError for a value of a type that it cannot store
    is_closed = isinstance(error, InterfaceError) and engine.dialect.name != "sqlite"
    is_connecting = error.statement is None  # the driver rejects the value of an option
    if operational or is_closed or is_connecting or error.connection_invalidated or state.startswith(_UNAVAILABLE):
        return LedgerError(f"the database {location} cannot be used: {reason}")
    return None
