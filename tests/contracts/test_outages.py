"""A Postgres that is read-only, ends connections or holds locks raises clear errors; work resumes afterwards."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Scope
from bln_search.core.errors import LedgerError
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.storage import engine as engine_module
from bln_search.storage.engine import make_engine, read_session, schema_transaction, write_session
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import loop
from bln_search.worker.loop import QueueWorker
from tests.contracts.conftest import execute
from tests.support.service_world import World, body

SMALL = {"training": {"epochs": 1}, "seeds": [0]}


@pytest.fixture
def kind():
    return "postgres"


class Postgres:
    """A database that an administrator can make read-only."""

    def __init__(self, server, url):
        self.server, self.url = server, url
        self.name = make_url(url).database

    def end_connections(self):
        execute(
            self.server,
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'",
        )

    def make_read_only(self):
        execute(self.server, f"ALTER DATABASE {self.name} SET default_transaction_read_only = on")
        self.end_connections()

    def make_writable(self):
        """Without ending connections: a server that was promoted does not end them either."""
        execute(self.server, f"ALTER DATABASE {self.name} RESET default_transaction_read_only")


@pytest.fixture
def database(postgres, url):
    return Postgres(postgres, url)


@pytest.fixture
def world(tmp_path, database):
    test_world = World(tmp_path / "home", database.url)
    yield test_world
    test_world.ledger.close()


def is_unavailable(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"]
    assert answer.json()["type"] == "urn:bln-search:problem:database"
    return answer.status_code == 503


def test_read_only_database_allows_reads_only(world, database):
    client = world.client()
    response = client.post("/api/v1/studies", json=body())
    assert response.status_code == 201
    path = f"/api/v1/studies/{response.json()['id']}"
    database.make_read_only()
    assert client.get("/api/v1/studies").status_code == 200
    assert is_unavailable(client.post("/api/v1/studies", json=body("other")))
    assert is_unavailable(client.patch(path, json={"notes": "mine"}))
    assert is_unavailable(client.post("/api/v1/session", json={"token": world.secrets["ada", Scope.WRITE]}))
    database.make_writable()
    assert client.post("/api/v1/studies", json=body("other")).status_code == 201


@pytest.mark.slow
def test_worker_waits_for_a_read_only_database(world, database, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_RETRY_DELAY", 0.05)
    study_id = world.client().post("/api/v1/studies", json=body(**SMALL)).json()["id"]
    environment = ExecutionEnvironment(tmp_path / "data", tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    ledger = open_and_upgrade_ledger(database.url)
    worker = QueueWorker(ledger, environment, LocalExecutor(environment, 1), cap=2)
    claims = []

    def look():
        """Called before each study is taken: makes the database writable before the fourth claim."""
        claims.append(None)
        if len(claims) == 4:
            database.make_writable()

    worker.find_disk_problem = look
    database.make_read_only()
    worker.run_until_stopped(once=True)
    assert len(claims) > 4
    assert ledger.studies.get(study_id).state is StudyState.COMPLETE
    ledger.close()


def test_terminated_connection_raises_ledger_error(database):
    engine = make_engine(database.url)
    with pytest.raises(LedgerError, match="cannot be used: "), write_session(engine) as session:
        session.execute(text("SELECT 1"))
        database.end_connections()
        session.execute(text("SELECT 1"))
    with read_session(engine) as session:
        assert session.scalar(text("SELECT 1")) == 1
    engine.dispose()


@pytest.mark.parametrize(("is_away", "state"), [(True, StudyState.RUNNING), (False, StudyState.ACCEPTED)])
def test_expired_leases_hold_after_the_database_was_away(world, database, is_away, state):
    """A live worker could not renew its lease, and has 30 seconds for it."""
    study_id = world.client().post("/api/v1/studies", json=body(**SMALL)).json()["id"]
    assert world.ledger.queue.claim_next_study("far/1/0", lambda _: True, 100) == study_id
    execute(database.url, f"UPDATE study SET runner_until = now() - interval '1 hour' WHERE id = {study_id}")
    if is_away:
        database.end_connections()
    world.ledger.studies.release_lost_studies(lambda _: True)
    assert world.ledger.studies.get(study_id).state is state


def test_locked_table_ends_requests_after_the_timeout(world, database, monkeypatch):
    monkeypatch.setattr(engine_module, "_LOCK_TIMEOUT", 0.1)
    world.ledger.database.engine.dispose()  # connections made from now on wait so long
    client, locking_engine = world.client(), create_engine(database.url)
    with locking_engine.begin() as connection:
        connection.execute(text("LOCK TABLE study IN ACCESS EXCLUSIVE MODE"))
        assert is_unavailable(client.get("/api/v1/studies"))
        assert is_unavailable(client.post("/api/v1/studies", json=body()))
    assert client.post("/api/v1/studies", json=body()).status_code == 201
    locking_engine.dispose()


def test_schema_transaction_waits_for_locks(database):
    limit = text("SHOW lock_timeout")
    engine = make_engine(database.url)
    for _ in range(2):
        with schema_transaction(engine) as connection:
            assert connection.scalar(limit) == "0"
        with read_session(engine) as session:
            assert session.scalar(limit) == "10s"
    engine.dispose()
    url_engine = make_engine(f"{database.url}&options=-c%20lock_timeout%3D7s")
    with read_session(url_engine) as session:
        assert session.scalar(limit) == "7s"
    url_engine.dispose()


@pytest.mark.parametrize("state", ["08006", "25006", "53300", "55P03", "57P01", "57P03", "57014"])
def test_unavailable_server_raises_ledger_error(database, state):
    engine = make_engine(database.url)
    fail = f"DO $$ BEGIN RAISE EXCEPTION 'because' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(LedgerError, match="cannot be used: because"), write_session(engine) as session:
        session.execute(text(fail))
    engine.dispose()
