"""Databases as earlier versions created them."""

from __future__ import annotations

from datetime import UTC, datetime

from alembic import command
from sqlalchemy import MetaData, insert, select

from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.storage.alembic_migrations import make_alembic_config
from bln_search.storage.engine import make_engine, schema_transaction

STUDY = parse_study("""
name: old
title: An old study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}]
seeds: [0, 1]
""")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIME_COLUMNS = ("at", "created_at", "started_at", "ended_at", "heartbeat_at", "lease_until", "runner_until")


def create_old_database(url, revision):
    """Create a database of an earlier schema with a row in every table; returns the rows by table."""
    engine = make_engine(url)
    config = make_alembic_config()
    with schema_transaction(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        schema = MetaData()
        schema.reflect(connection)
        tables = schema.tables

        def add(table, **values):
            moments = {column.name: NOW for column in tables[table].columns if column.name in TIME_COLUMNS}
            connection.execute(insert(tables[table]).values({**moments, **values}))

        study = {"id": 7, "name": "old", "digest": STUDY.digest, "spec": STUDY.canonical_json(), "state": "interrupted"}
        add("study", **study, revision=3, priority=0)
        for number, trial in enumerate(list_planned_trial_specs(STUDY)):
            identity = {"study_id": 7, "key": trial.key, "position": number, "arm": "bln", "method": "bln"}
            state = "finished" if number == 0 else "waiting"
            add("trial", id=number + 1, **identity, seed=trial.seed, spec=trial.model_dump_json(), state=state)
        add("attempt", id=1, trial_id=1, number=1, worker="host/1/0", state="succeeded")
        checkpoint = {"file": "f", "sha256": "0" * 64, "epoch": 3, "judged_under": "FFFF", "validation_loss": 0.5}
        add("checkpoint", id=1, trial_id=1, **checkpoint, provenance={"torch": "2"})
        row = {"configuration": "FFFF", "estimate": "", "batch_size": 25, "split": "test", "state": "measured"}
        add("evaluation", id=1, checkpoint_id=1, **row, n=2, loss=0.5, accuracy=0.5)
        add("outcomes", evaluation_id=1, losses=b"x", correct=b"y")
        add("event", id=1, study_id=7, number=1, kind="study_accepted", trial_id=None, data={})
    before = {name: read_rows(engine, name) for name in tables if name != "bln_search_version"}
    engine.dispose()
    return before


def read_rows(engine, table):
    """The rows of a table with its present columns."""
    schema = MetaData()
    with engine.connect() as connection:
        schema.reflect(connection, only=[table])
        return [dict(row._mapping) for row in connection.execute(select(schema.tables[table]))]
