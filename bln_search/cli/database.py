"""The verbs about the database: upgrade, status."""

from __future__ import annotations

import typer

from bln_search.cli.output import results
from bln_search.cli.sources import DatabaseOption
from bln_search.settings import load_settings
from bln_search.storage.engine import make_engine
from bln_search.storage.migration import migrate, newest_revision, present_revision

app = typer.Typer(help="The database: its schema revision, and bringing it up to date.", no_args_is_help=True)


@app.command()
def status(database: DatabaseOption = None) -> None:
    """Print where the database is and its schema revision."""
    engine = make_engine(database or load_settings().database_url)
    present = present_revision(engine) or "none: empty"
    results.print(f"database {engine.url.render_as_string(hide_password=True)}", soft_wrap=True, highlight=False)
    results.print(f"schema revision {present}; this version of bln-search writes {newest_revision()}", highlight=False)
    engine.dispose()


@app.command()
def upgrade(database: DatabaseOption = None) -> None:
    """Create the tables, or bring them to the schema of this version."""
    engine = make_engine(database or load_settings().database_url)
    try:
        migrate(engine)
    finally:
        engine.dispose()
    results.print(f"schema revision {newest_revision()}", highlight=False)
    engine.dispose()
