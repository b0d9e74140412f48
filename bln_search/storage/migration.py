"""Creates the tables of a database, or upgrades them to this version."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.orm import Session

from bln_search.core.errors import LedgerError, SchemaChangedError
from bln_search.storage.engine import read_session, schema_transaction

VERSION_TABLE = "bln_search_version"
_FOLDER = Path(__file__).parent / "migrations"


def alembic_config() -> Config:
    """Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    return config


@cache
def newest_revision() -> str:
    """The schema revision of this version of bln-search."""
    head = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert head is not None
    return head


def revisions() -> set[str]:
    """The schema revisions that this version of bln-search knows."""
    return {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}


def present_revision(engine: Engine) -> str | None:
    """The schema revision of the database, None for an empty one."""
    with read_session(engine) as session:
        return _revision(session.connection())


def check_revision(session: Session) -> None:
    """Raise SchemaChangedError if the schema of the database was upgraded since it was opened."""
    present = session.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - the table name is a constant
    if present != newest_revision():
        raise SchemaChangedError(
            f"the database has the schema revision {present} now, this process needs {newest_revision()}: it stops and "
            "writes nothing more; restart it with the version of bln-search that upgraded the database"
        )


def migrate(engine: Engine) -> None:
    """Create or upgrade the tables in one transaction. Concurrent calls wait for the first one and change nothing.

    Raises:
        LedgerError: A newer version wrote the database, or it belongs to another program.
    """
    if present_revision(engine) == newest_revision():
        return
    location = engine.url.render_as_string(hide_password=True)
    config = alembic_config()
    with schema_transaction(engine) as connection:
        _check_owner(connection, location)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def _check_owner(connection: Connection, location: str) -> None:
    """Raise LedgerError if a newer version or another program created the tables."""
    present = _revision(connection)
    if present is not None and present not in revisions():
        raise LedgerError(
            f"the database {location} has the schema revision {present}, which this version of bln-search does not "
            "know: it was written by a newer version; upgrade bln-search, or give another database with --database"
        )
    if present is None and inspect(connection).get_table_names():
        raise LedgerError(f"the database {location} has tables of another program; give another with --database")
