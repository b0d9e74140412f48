"""Migrations create exactly the tables of the models, over every database."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from bln_search.core.errors import LedgerError
from bln_search.storage.alembic_migrations import make_alembic_config
from bln_search.storage.engine import make_engine, read_session, write_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.migration import VERSION_TABLE, known_schema_revisions, newest_known_schema_revision
from bln_search.storage.tables import Table


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


def test_newer_database_is_rejected_unchanged(url):
    ledger = open_and_upgrade_ledger(url)
    with write_session(ledger.database.engine) as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(LedgerError, match=r"9999.*written by a newer version; upgrade bln-search"):
        open_and_upgrade_ledger(url)
    assert ledger.find_schema_revision() == "9999"
    ledger.close()


def test_database_of_another_program_is_rejected(url):
    engine = make_engine(url)
    with write_session(engine) as session:
        session.execute(text("CREATE TABLE trials (x INTEGER)"))
    engine.dispose()
    with pytest.raises(LedgerError, match="tables of another program"):
        open_and_upgrade_ledger(url)
