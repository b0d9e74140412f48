"""The list of workers over HTTP."""

from __future__ import annotations

from datetime import timedelta

from bln_search.core.enums import Scope
from bln_search.storage.leases import WORKER_TIMEOUT


def test_live_workers_are_listed(world):
    world.ledger.workers.record_heartbeat("host/1/2.00", "cpu", "0")
    clock = world.ledger.database.clock
    world.ledger.database.clock = lambda: clock() - WORKER_TIMEOUT - timedelta(seconds=1)
    world.ledger.workers.record_heartbeat("gone/1/2.00", "cpu", "0")
    world.ledger.database.clock = clock
    answer = world.client("bob", Scope.READ).get("/api/v1/workers")
    assert [(item["name"], item["device"], item["version"]) for item in answer.json()["items"]] == [
        ("host/1/2.00", "cpu", "0")
    ]
