"""The readiness check needs no token, and concurrent checks share one query."""

from __future__ import annotations

from sqlalchemy import event, text


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
