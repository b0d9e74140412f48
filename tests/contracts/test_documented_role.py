"""The role and the database that the page about the service creates are sufficient."""

from __future__ import annotations

from contextlib import closing

from sqlalchemy import create_engine, text

from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.contracts.conftest import execute
from tests.docs.pages import PAGES, blocks


def test_the_documented_role_creates_every_table_and_the_schema_of_optuna(postgres):
    (block,) = blocks(PAGES["service.md"], "sql")
    execute(postgres, *[statement for statement in block.text.split(";") if statement.strip()])
    url = postgres.set(username="bln_search", password="...", database="bln_search")
    with closing(open_and_upgrade_ledger(url.render_as_string(hide_password=False))) as ledger:
        assert ledger.studies.list_studies() == []
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA optuna"))
    engine.dispose()
