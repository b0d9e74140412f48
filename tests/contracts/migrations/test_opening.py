"""Many processes that open the same empty or old database at once find it migrated."""

from __future__ import annotations

import multiprocessing

import pytest
from alembic import command

from bln_search.storage.alembic_migrations import make_alembic_config
from bln_search.storage.engine import make_engine, schema_transaction
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.migration import newest_known_schema_revision

AT_ONCE = 4


@pytest.mark.slow
@pytest.mark.parametrize("before", [None, "0003"])
def test_concurrent_processes_open_an_empty_database(url, before):
    if before is not None:
        bring_to(url, before)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as shared:
        barrier = shared.Barrier(AT_ONCE)
        with context.Pool(AT_ONCE) as processes:
            results = processes.starmap(open_once, [(url, barrier)] * AT_ONCE, chunksize=1)
    assert results == [newest_known_schema_revision()] * AT_ONCE


def bring_to(url: str, revision: str) -> None:
    """Make the tables of an earlier version."""
    engine = make_engine(url)
    config = make_alembic_config()
    with schema_transaction(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def open_once(url: str, barrier) -> str | None:
    """In a process of its own, when the others are there, too."""
    barrier.wait(60)
    ledger = open_and_upgrade_ledger(url)
    try:
        return ledger.find_schema_revision()
    finally:
        ledger.close()
