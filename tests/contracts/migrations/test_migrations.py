"""Migrations create exactly the tables of the models, over every database, also for processes that open it at once."""

from __future__ import annotations

import multiprocessing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from bln_search.core.errors import LedgerError
from bln_search.storage.engine import make_engine, read_session, write_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.migration import (
    VERSION_TABLE,
    known_schema_revisions,
    make_alembic_config,
    newest_known_schema_revision,
)
from bln_search.storage.tables import Table
from tests.contracts.migrations.old_databases import create_old_database

AT_ONCE = 4


def test_migrated_tables_equal_the_models(ledger):
    with read_session(ledger.database.engine) as session:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(session.connection(), opts=options)
        assert compare_metadata(context, Table.metadata) == []
    assert ledger.find_schema_revision() == newest_known_schema_revision()


def test_revisions_in_the_names_of_the_scripts_are_those_that_alembic_reads_in_them():
    scripts = ScriptDirectory.from_config(make_alembic_config())
    assert {script.revision for script in scripts.walk_revisions()} == known_schema_revisions()
    assert scripts.get_current_head() == newest_known_schema_revision()


def test_opening_again_changes_nothing(url):
    open_and_upgrade_ledger(url).close()
    reopened = open_and_upgrade_ledger(url)
    assert reopened.find_schema_revision() == newest_known_schema_revision()
    reopened.close()


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("9999", r"9999.*written by a newer version; upgrade bln-search, or"),
        (
            "0004",
            r"0004.*written by an old version; first upgrade the database with .* of a version that knows 0005, ",
        ),
    ],
)
def test_database_of_an_unknown_revision_is_rejected_unchanged(url, revision, message):
    ledger = open_and_upgrade_ledger(url)
    with write_session(ledger.database.engine) as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))
    with pytest.raises(LedgerError, match=message):
        open_and_upgrade_ledger(url)
    assert ledger.find_schema_revision() == revision
    ledger.close()


def test_database_of_another_program_is_rejected(url):
    engine = make_engine(url)
    with write_session(engine) as session:
        session.execute(text("CREATE TABLE trials (x INTEGER)"))
    engine.dispose()
    with pytest.raises(LedgerError, match="tables of another program"):
        open_and_upgrade_ledger(url)


@pytest.mark.slow
@pytest.mark.parametrize("before", [None, "0005"])
def test_concurrent_processes_migrate_a_database_once(url, before):
    if before is not None:
        create_old_database(url, before)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as shared:
        barrier = shared.Barrier(AT_ONCE)
        with context.Pool(AT_ONCE) as processes:
            results = processes.starmap(open_once, [(url, barrier)] * AT_ONCE, chunksize=1)
    assert results == [newest_known_schema_revision()] * AT_ONCE


def open_once(url: str, barrier) -> str | None:
    """In a process of its own, when the others are there, too."""
    barrier.wait(60)
    ledger = open_and_upgrade_ledger(url)
    try:
        return ledger.find_schema_revision()
    finally:
        ledger.close()
