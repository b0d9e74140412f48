"""Optuna's records: how they are opened, and which error stands for a fault of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optuna.storages import RDBStorage
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from bln_search.core.credentials import redact_secrets
from bln_search.core.errors import LedgerError, StorageFullError
from bln_search.core.sqlite import SQLITE_TIMEOUT

_DAMAGED_SQLSTATES = ("42P01", "42703", "42804", "XX001", "XX002")
"""SQLSTATEs of a table or column that is missing or has another type, and of damaged data."""

_DAMAGED_SQLITE_TEXTS = ("not a database", "malformed", "no such table", "no such column", "has no column")

_DISK_FULL = "53100"


class OptunaRecords(RDBStorage):
    """Optuna's records in a SQLite file, or in a schema of a Postgres database.

    Args:
        url: The database.
        schema: The schema in Postgres; None for SQLite. Every transaction chooses it, because a connection pool such as
            PgBouncer passes no start-up options on, and gives a session to other clients after each transaction.
    """

    def __init__(self, url: str, schema: str | None = None) -> None:
        self._choose_schema = _make_schema_listener(schema)
        try:
            super().__init__(url, engine_kwargs=_make_engine_options(url))
        except BaseException:
            if "engine" in vars(self):
                self.engine.dispose()
            raise

    @property
    def engine(self) -> Engine:
        """The engine, which Optuna creates and uses in its constructor."""
        engine: Engine = vars(self)["engine"]
        return engine

    @engine.setter
    def engine(self, engine: Engine) -> None:
        vars(self)["engine"] = engine
        if self._choose_schema is not None:
            event.listen(engine, "begin", self._choose_schema)


def _make_engine_options(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"connect_args": {"timeout": SQLITE_TIMEOUT}}
    # behind a pool another client may have prepared a statement of the same name
    options = {"prepare_threshold": None} if make_url(url).get_driver_name() == "psycopg" else {}
    return {"pool_pre_ping": True, "connect_args": options}


def _make_schema_listener(schema: str | None) -> Callable[[Connection], None] | None:
    """A function that chooses the schema for the transaction that begins; None without a schema."""
    if schema is None:
        return None

    def choose_schema(connection: Connection) -> None:
        connection.exec_driver_sql(f"SET LOCAL search_path TO {connection.dialect.identifier_preparer.quote(schema)}")

    return choose_schema


def make_records_error(error: Exception, url: str, schema: str | None) -> LedgerError | StorageFullError:
    """The error that stands for a fault of Optuna's records; it advises to delete them only where they are damaged.

    Args:
        error: Raised by Optuna.
        url: The database of the records.
        schema: Their schema in Postgres; None for SQLite.
    """
    parsed = make_url(url)
    location = parsed.database if schema is None else f"in the schema {schema} of {parsed.host or ''}/{parsed.database}"
    cause = _find_sqlalchemy_error(error)
    reason = _describe_first_line(getattr(cause, "orig", None) or cause or error)
    if isinstance(cause, DBAPIError) and _is_disk_full(cause, reason):
        return StorageFullError(f"no disk space left to write Optuna's records {location}: free some")
    message = f"Optuna's records {location} cannot be used: {reason}"
    if cause is not None and not _shows_damage(cause, reason):
        return LedgerError(message)
    deletion = "delete the file" if schema is None else f'DROP SCHEMA "{schema}" CASCADE'
    return LedgerError(f"{message}; delete them ({deletion}); they are written again from the ledger")


def _find_sqlalchemy_error(error: BaseException) -> SQLAlchemyError | None:
    """The error of SQLAlchemy that Optuna raised again; None where the records do not fit this version of Optuna."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, SQLAlchemyError):
        cause = cause.__cause__
    return cause


def _describe_first_line(error: BaseException) -> str:
    return redact_secrets((str(error).splitlines() or [type(error).__name__])[0])


def _is_disk_full(cause: DBAPIError, reason: str) -> bool:
    return _read_sqlstate(cause) == _DISK_FULL or "disk is full" in reason


def _shows_damage(cause: SQLAlchemyError, reason: str) -> bool:
    """Whether the records are damaged or have another structure, rather than cannot be reached or written."""
    return (
        isinstance(cause, IntegrityError | DataError)
        or _read_sqlstate(cause) in _DAMAGED_SQLSTATES
        or any(text in reason for text in _DAMAGED_SQLITE_TEXTS)
    )


def _read_sqlstate(cause: SQLAlchemyError) -> str:
    return getattr(getattr(cause, "orig", None), "sqlstate", None) or ""
