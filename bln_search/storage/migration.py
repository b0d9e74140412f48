"""Bringing a database to the tables of this version."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from bln_search.core.errors import LedgerError
from bln_search.storage.engine import reading, rebuilding

VERSION_TABLE = "bln_search_version"
_FOLDER = Path(__file__).parent / "migrations"


def alembic_config() -> Config:
    """Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    return config


def newest_revision() -> str:
    """The schema revision of this version of bln-search."""
    head = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert head is not None
    return head


def present_revision(engine: Engine) -> str | None:
    """The schema revision of the database, None for an empty one."""
    with reading(engine) as session:
        context = MigrationContext.configure(session.connection(), opts={"version_table": VERSION_TABLE})
        return context.get_current_revision()


def migrate(engine: Engine) -> None:
    """Create or upgrade the tables in one transaction. Raises LedgerError for a database of a newer version."""
    present = present_revision(engine)
    if present == newest_revision():
        return
    place = engine.url.render_as_string(hide_password=True)
    known = {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}
    if present is not None and present not in known:
        raise LedgerError(
            f"the database {place} has the schema revision {present}, which this version of bln-search does not know: "
            "it was written by a newer version; upgrade bln-search, or give another database with --database"
        )
    if present is None and _has_foreign_tables(engine):
        raise LedgerError(f"the database {place} holds tables of another program; give another with --database")
    config = alembic_config()
    with rebuilding(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _has_foreign_tables(engine: Engine) -> bool:
    with reading(engine) as session:
        return bool(inspect(session.connection()).get_table_names())
