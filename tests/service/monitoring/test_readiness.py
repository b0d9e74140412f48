"""The readiness check needs no token, and concurrent checks share one query."""

from __future__ import annotations

import shutil

import pytest
from sqlalchemy import event, text

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import LedgerError
from bln_search.storage.migration import newest_known_schema_revision


def test_concurrent_readiness_checks_query_the_database_once(world):
    client = world.client(None)
    statements = []
    assert client.get("/readyz").status_code == 503
    event.listen(
        world.ledger.database.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    world.context.readiness._ttl = 3600
    for _ in range(20):
        assert client.get("/readyz").json()["workers"] == 0
    assert statements == []


def test_missing_database_is_not_ready(world):
    with world.ledger.database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE worker RENAME TO elsewhere"))
    response = world.client(None).get("/readyz")
    assert (response.status_code, response.json()["ready"]) == (503, False)
    assert (response.json()["schema_revision"], response.json()["workers"]) == (None, 0)


def set_revision(world, revision):
    with world.ledger.database.engine.begin() as connection:
        connection.execute(text("UPDATE bln_search_version SET version_num = :revision"), {"revision": revision})


def lose_connection(world):
    def refuse(*_arguments):
        raise LedgerError("the database postgresql+psycopg://user@secret-host/name cannot be used: refused")

    world.ledger.find_schema_revision = refuse


def lose_tables(world):
    with world.ledger.database.engine.begin() as connection:
        connection.execute(text("DROP TABLE bln_search_version"))


def move_store(world):
    world.settings.checkpoint_store.path.rename(world.home / "elsewhere")


def replace_store(world):
    move_store(world)
    world.settings.checkpoint_store.path.mkdir()


def move_database(world):
    file = world.home / "ledger.sqlite3"
    file.rename(world.home / "moved.sqlite3")


def replace_database(world):
    move_database(world)
    shutil.copy(world.home / "moved.sqlite3", world.home / "ledger.sqlite3")


@pytest.mark.parametrize(
    ("break_it", "cause"),
    [
        (lambda _: None, "ready"),
        (lambda world: world.ledger.workers.remove_worker("host/1/0"), "no worker has sent a heartbeat"),
        (lose_connection, "the database cannot be reached"),
        (lose_tables, "the database has no tables"),
        (lambda world: set_revision(world, "0013"), "0013 of the database is older"),
        (lambda world: set_revision(world, "9999"), "a newer version"),
        (lambda world: set_revision(world, "0001"), "an old version"),
        (move_store, "the checkpoint store is not mounted"),
        (replace_store, "not that of the database"),
        (move_database, "the file of the database was moved, deleted or replaced"),
        (replace_database, "the file of the database was moved, deleted or replaced"),
    ],
)
def test_detail_names_the_cause_and_no_address(world, break_it, cause):
    world.ledger.workers.record_heartbeat("host/1/0", "cpu", "0")
    world.ledger.checkpoints.claim_store(FolderStore(world.home / "checkpoints"))
    break_it(world)
    response = world.client(None).get("/readyz")
    answer = response.json()
    assert (response.status_code, answer["ready"]) == ((200, True) if cause == "ready" else (503, False))
    assert cause in answer["detail"]
    assert answer["schema_revision"] != newest_known_schema_revision() or "schema" not in answer["detail"]
    assert not any(part in answer["detail"] for part in ("secret-host", str(world.home)))
