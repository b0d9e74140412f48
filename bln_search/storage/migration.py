"""Creates the tables of a database, or upgrades them to this version."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.orm import Session

from bln_search.core.errors import LedgerError, SchemaChangedError
from bln_search.storage.engine import read_session, schema_transaction
from bln_search.storage.setup_check import check_may_create_tables, describe_database_url

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE = "bln_search_version"
_MIGRATIONS = Path(__file__).parent / "migrations"
_SELECT_REVISION = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - the table name is a constant


@cache
def newest_known_schema_revision() -> str:
    """The schema revision of this version of bln-search."""
    return max(known_schema_revisions())


@cache
def known_schema_revisions() -> frozenset[str]:
    """The schema revisions that this version of bln-search knows: the numbers that the migration scripts begin with."""
    return frozenset(script.stem.partition("_")[0] for script in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def find_database_schema_revision(engine: Engine) -> str | None:
    """The schema revision of the database, None for an empty one."""
    with read_session(engine) as session:
        return _find_schema_revision(session.connection())


def check_schema_revision_unchanged(session: Session) -> None:
    """Raise SchemaChangedError if the schema of the database was upgraded since it was opened."""
    present = session.scalar(_SELECT_REVISION)
    if present != newest_known_schema_revision():
        raise SchemaChangedError(
            f"the database has the schema revision {present} now, this process needs "
            f"{newest_known_schema_revision()}: it stops and "
            "writes nothing more; restart it with the version of bln-search that upgraded the database"
        )


def create_or_upgrade_tables(engine: Engine) -> None:
    """Create or upgrade the tables in one transaction. Concurrent calls wait for the first one and change nothing.

    Raises:
        LedgerError: The database has an unknown schema revision, it belongs to another program, or the role may not
            create tables.
    """
    if find_database_schema_revision(engine) == newest_known_schema_revision():
        return
    with schema_transaction(engine) as connection:
        _check_schema_origin(connection, describe_database_url(engine.url))
        if connection.dialect.name == "postgresql":
            check_may_create_tables(connection)
        run_alembic_migrations(connection)


def make_alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, without a file, for migrations in the transaction of `connection`."""
    from alembic.config import Config  # noqa: PLC0415 - Alembic takes a quarter of a second to load, and is rarely needed

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "bln_search.storage:migrations")
    return config


def run_alembic_migrations(connection: Connection, revision: str = "head") -> None:
    """Run every migration up to a revision that the database lacks, in the transaction of `connection`."""
    from alembic import command  # noqa: PLC0415 - as above

    command.upgrade(make_alembic_config(connection), revision)


def describe_unknown_revision(revision: str) -> str:
    """The text of an error about a schema revision that this version does not know: the revision, and what to do."""
    unknown = f"the schema revision {revision}, which this version of bln-search does not know: it was written by"
    if revision < min(known_schema_revisions()):
        return (
            f"{unknown} an old version; first upgrade the database with `bln-search db upgrade` of a version that "
            f"knows {min(known_schema_revisions())}, such as 0.2.0 of 2026-11-23"
        )
    return f"{unknown} a newer version; upgrade bln-search"


def _find_schema_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.scalar(_SELECT_REVISION)
    return revision


def _check_schema_origin(connection: Connection, location: str) -> None:
    """Raise LedgerError if an unknown version or another program created the tables."""
    present = _find_schema_revision(connection)
    if present is not None and present not in known_schema_revisions():
        raise LedgerError(
            f"the database {location} has {describe_unknown_revision(present)}, or give another database with "
            "--database"
        )
    if present is None and inspect(connection).get_table_names():
        raise LedgerError(f"the database {location} has tables of another program; give another with --database")
