"""Commands for the database: upgrade, status."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import typer

from bln_search.cli.options import DatabaseOption, FormatOption
from bln_search.cli.output import RecordsFormat, print_line
from bln_search.cli.records import Record, print_record
from bln_search.core.urls import redact_password
from bln_search.settings import find_missing_sqlite_file, load_settings
from bln_search.storage.ledger import open_ledger_without_schema_check
from bln_search.storage.migration import newest_known_schema_revision

app = typer.Typer(no_args_is_help=True)


@app.command()
def status(database: DatabaseOption = None, output_format: FormatOption = RecordsFormat.TABLE) -> None:
    """Print the location of the database and its schema revision."""
    url = load_settings().checked_database_url(database)
    revision = None
    if find_missing_sqlite_file(url) is None:
        with closing(open_ledger_without_schema_check(url)) as ledger:
            revision = ledger.find_schema_revision()
    record = {
        "database": redact_password(url),
        "schema_revision": revision,
        "newest_revision": newest_known_schema_revision(),
    }
    print_record(record, output_format, partial(_print_schema_status, record))


def _print_schema_status(record: Record) -> None:
    print_line(f"database {record['database']}")
    print_line(
        f"schema revision {record['schema_revision'] or 'none (empty)'}; this version of bln-search writes "
        f"{record['newest_revision']}"
    )


@app.command()
def upgrade(database: DatabaseOption = None) -> None:
    """Create the tables, or upgrade them to the schema of this version."""
    with closing(open_ledger_without_schema_check(load_settings().checked_database_url(database))) as ledger:
        before = ledger.find_schema_revision()
        ledger.upgrade_schema()
    origin = "tables created" if before is None else f"upgraded from {before}"
    origin = "nothing to upgrade" if before == newest_known_schema_revision() else origin
    print_line(f"{ledger}: schema revision {newest_known_schema_revision()}, {origin}")
