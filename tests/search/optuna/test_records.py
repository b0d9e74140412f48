"""Only damaged records are to be deleted; a fault of the database, which passes, says what it is."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import exc

from bln_search.core.errors import LedgerError, StorageFullError
from bln_search.search.optuna.records import make_records_error
from bln_search.search.optuna.sampler import OptunaPointSampler
from bln_search.specs.sections.search import SearchSpec
from tests.search.optuna.test_sampler import SPACE


def open_sampler(url, schema=None):
    sampler = OptunaPointSampler(
        SearchSpec(sampler="random", trials=3), SPACE, storage=url, schema=schema, name="records", epochs=2
    )
    try:
        sampler.ask()
    finally:
        sampler.close()


def execute(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "records.sqlite3"
    open_sampler(f"sqlite:///{path}")
    return path


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"not a database " * 1000),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: execute(path, "ALTER TABLE trials RENAME COLUMN state TO other"),
        lambda path: execute(path, "UPDATE alembic_version SET version_num = 'v99'"),
        lambda path: execute(path, "DELETE FROM study_directions"),
    ],
    ids=["no database", "truncated", "other column", "other version of Optuna", "missing rows"],
)
def test_damaged_records_are_to_be_deleted(path, damage):
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
    damage(path)
    with pytest.raises(LedgerError, match=rf"{re.escape(str(path))}.*delete them \(delete the file\)"):
        open_sampler(f"sqlite:///{path}")


@pytest.mark.parametrize(
    ("url", "schema", "message"),
    [
        ("sqlite:////nowhere/absent/records.sqlite3", None, "unable to open database file"),
        ("postgresql+psycopg://u:hunter2@127.0.0.1:9/x", "optuna", "Connection refused"),
        ("postgresql+psycopg://u@127.0.0.1:9/x?password=hunter2", "optuna", "Connection refused"),
    ],
)
def test_records_that_cannot_be_reached_are_not_to_be_deleted(url, schema, message):
    with pytest.raises(LedgerError, match=message) as error:
        open_sampler(url, schema)
    assert "delete" not in str(error.value)
    assert "DROP" not in str(error.value)
    assert "hunter2" not in str(error.value)


def sqlite_fault(reason):
    return exc.OperationalError("SELECT 1", {}, sqlite3.OperationalError(reason))


def make_postgres_fault(state):
    psycopg = pytest.importorskip("psycopg")
    return exc.DBAPIError.instance("SELECT 1", {}, psycopg.errors.lookup(state)("because"), psycopg.Error)


@pytest.mark.parametrize("reason", ["database is locked", "disk I/O error", "attempt to write a readonly database"])
def test_a_fault_of_the_file_is_not_to_be_mended_by_deletion(reason):
    message = str(make_records_error(sqlite_fault(reason), "sqlite:////srv/records.sqlite3", None))
    assert message.endswith(f"cannot be used: {reason}")


@pytest.mark.parametrize("state", ["08006", "57P01", "42501", "53300", "08P01", "40001", "55P03"])
def test_a_fault_of_the_server_is_not_to_be_mended_by_deletion(state):
    message = str(make_records_error(make_postgres_fault(state), "postgresql+psycopg://host/name", "optuna"))
    assert message.endswith("schema optuna of host/name cannot be used: because")


@pytest.mark.parametrize("state", ["42P01", "42703", "23503", "XX001"])
def test_a_damaged_schema_is_to_be_dropped(state):
    message = str(make_records_error(make_postgres_fault(state), "postgresql+psycopg://host/name", "optuna_x"))
    assert 'DROP SCHEMA "optuna_x" CASCADE' in message


def test_a_full_disk_is_a_full_disk():
    fault = sqlite_fault("database or disk is full")
    assert isinstance(make_records_error(fault, "sqlite:////srv/records.sqlite3", None), StorageFullError)
