"""Databases as earlier versions created them."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import MetaData, insert, select

from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.storage.engine import make_engine, schema_transaction
from bln_search.storage.migration import VERSION_TABLE, run_alembic_migrations

STUDY = parse_study("""
name: old
title: An old study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}]
seeds: [0, 1]
""")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIME_COLUMNS = ("at", "created_at", "started_at", "ended_at", "heartbeat_at", "lease_until", "made_at", "requested_at")
ROW = {"configuration": "FFFF", "estimate": "", "batch_size": 25}
KEY = {**ROW, "split": "test"}
FILE = {"epoch": 3, "file": "f", "sha256": "0" * 64}
ROWS = {
    "account": [{"name": "ada"}],
    "attempt": [{"id": 1, "trial_id": 1, "number": 1, "worker": "host/1/0", "state": "succeeded"}],
    "checkpoint": [
        {"id": 1, "trial_id": 1, **FILE, "judged_under": "FFFF", "validation_loss": 0.5, "provenance": {"torch": "2"}}
    ],
    "snapshot": [{"id": 1, "checkpoint_id": 1, **FILE}],
    "evaluation": [{"id": 1, "checkpoint_id": 1, **KEY, "state": "measured", "n": 2, "loss": 0.5, "accuracy": 0.5}],
    "outcomes": [{"evaluation_id": 1, "losses": b"x", "correct": b"y"}],
    "probe": [{"id": 1, "checkpoint_id": 1, "kind": "batch_size", "epoch": 0, **KEY, "n": 2, "loss": 1, "accuracy": 0}],
    "layer_search": [{"checkpoint_id": 1, "asked": "d", "spec": "{}", "done": 1, "sums": b"x"}],
    "event": [{"id": 1, "study_id": 7, "number": 1, "kind": "study_accepted", "data": {}}],
    "analysis": [{"study_id": 7, "results": 0, "format": 1, "body": "{}"}],
    "token": [{"id": 1, "account": "ada", "kind": "access", "label": "", "sha256": "1" * 64, "scope": "read"}],
    "submission": [{"account": "ada", "key": "k", "digest": STUDY.digest, "study_id": 7}],
    "worker": [{"name": "host/1/0", "device": "cpu", "version": "0"}],
    "study_tag": [{"study_id": 7, "tag": "old"}],
    "export": [
        {"id": 1, "study_id": 7, "trial_id": 1, **ROW, "format": "all", "state": "failed", "account": "ada"}
        | {"attempt": 1, "tries": 1}
    ],
}
"""Rows besides those of the study and its trials; the tables come with different revisions."""


def create_old_database(url, revision):
    """Create a database of an earlier schema with a row in every table; returns the rows by table."""
    engine = make_engine(url)
    schema = MetaData()
    with schema_transaction(engine) as connection:
        run_alembic_migrations(connection, revision)
        schema.reflect(connection)

        def add(table, **values):
            moments = {column.name: NOW for column in schema.tables[table].columns if column.name in TIME_COLUMNS}
            connection.execute(insert(schema.tables[table]).values({**moments, **values}))

        study = {"id": 7, "name": "old", "digest": STUDY.digest, "spec": STUDY.canonical_json(), "state": "interrupted"}
        counts = {"planned": 2, "results": 1, "last_event": 1}
        add("study", **study, **counts, revision=3, priority=0, owner="", title=STUDY.title)
        for number, trial in enumerate(list_planned_trial_specs(STUDY)):
            identity = {"study_id": 7, "key": trial.key, "position": number, "arm": "bln", "method": "bln"}
            state = "finished" if number == 0 else "waiting"
            add("trial", id=number + 1, **identity, seed=trial.seed, spec=trial.model_dump_json(), state=state)
        for table in [table for table in ROWS if table in schema.tables]:
            for values in ROWS[table]:
                add(table, **values)
    before = {name: read_rows(engine, name) for name in schema.tables if name != VERSION_TABLE}
    engine.dispose()
    return before


def read_rows(engine, table):
    """The rows of a table with its present columns."""
    schema = MetaData()
    with engine.connect() as connection:
        schema.reflect(connection, only=[table])
        return [dict(row._mapping) for row in connection.execute(select(schema.tables[table]))]
