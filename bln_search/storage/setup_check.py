"""Checks whether a database is set up for bln-search: the options of its URL, its encoding, and the rights of its role.

They are checked once, when it is connected to, because each fault would show later at a place that says nothing of it.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from bln_search.core.errors import LedgerError
from bln_search.core.urls import redact_password

_UTF8_NAMES = ("UTF8", "UNICODE")
"""Names of the encoding that stores every text; PgBouncer repeats the one that the client wrote."""

_SQLITE_OPTIONS = frozenset(
    {"timeout", "isolation_level", "detect_types", "check_same_thread", "cached_statements", "uri"}
)
"""Options of Python's sqlite3; with a `file:` URI those of SQLite are allowed too."""


def describe_database_url(url: URL) -> str:
    """The URL of a database without a password, neither before the host nor in an option."""
    return redact_password(url.render_as_string(hide_password=True))


def check_url_options(url: URL) -> None:
    """Raise LedgerError where the driver does not know an option of a URL; the message suggests a similar one."""
    known = _known_options(url)
    unknown = next((name for name in url.query if known and name not in known), None)
    if unknown is None:
        return
    similar = get_close_matches(unknown, known, n=1)
    remedy = f"did you mean {similar[0]}?" if similar else "remove it"
    raise LedgerError(f"the database {describe_database_url(url)} has an unknown option {unknown!r}: {remedy}")


def _known_options(url: URL) -> Collection[str]:
    """The options that the driver of a URL knows; empty where this is unknown."""
    if url.get_driver_name() == "psycopg":
        from psycopg import pq  # noqa: PLC0415 - of the extra `postgres`

        return {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    is_uri = str(url.database or "").startswith("file:") or "uri" in url.query
    return _SQLITE_OPTIONS if url.get_driver_name() == "pysqlite" and not is_uri else ()


def check_encodings(connection: Any, url: URL) -> None:
    """Raise LedgerError unless database and connection encode texts as UTF-8.

    Args:
        connection: A new connection of psycopg; it is closed before an error is raised.
        url: The database.
    """
    for name, remedy in (
        (
            "server_encoding",
            "create a database with ENCODING 'UTF8' TEMPLATE template0, and restore a backup there",
        ),
        ("client_encoding", "remove client_encoding from its URL"),
    ):
        encoding = connection.info.parameter_status(name)
        if encoding is not None and encoding.upper().replace("-", "") not in _UTF8_NAMES:  # None: a proxy hides it
            connection.close()
            raise LedgerError(
                f"the database {describe_database_url(url)} has the {name} {encoding}, which cannot store every text: "
                f"{remedy}"
            )


def check_may_create_tables(connection: Connection) -> None:
    """Raise LedgerError where the role may not create tables in the Postgres schema that receives them."""
    role, schema, may_create = connection.execute(
        text("SELECT current_user, current_schema(), has_schema_privilege(current_schema(), 'CREATE')")
    ).one()
    location = describe_database_url(connection.engine.url)
    if schema is None:
        raise LedgerError(
            f"the role {role} finds no schema for tables in the database {location}: create the schema that its "
            "search_path names, and grant the role USAGE and CREATE on it"
        )
    if not may_create:
        raise LedgerError(
            f"the role {role} may not create tables in the schema {schema} of the database {location}: as an "
            f'administrator run GRANT CREATE ON SCHEMA "{schema}" TO "{role}" in that database'
        )
