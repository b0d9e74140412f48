"""A database of any released schema is brought up to date, and keeps every row."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from alembic import command
from sqlalchemy import MetaData, insert, select

from bln_search.core.states import TrialState
from bln_search.specs import parse_study, trials_of
from bln_search.storage.engine import make_engine, schema_transaction
from bln_search.storage.ledger import open_ledger
from bln_search.storage.migration import alembic_config, newest_revision

STUDY = parse_study("""
name: old
title: An old study
data: {name: digits}
model: {name: mlp}
arms: [{method: bln}]
seeds: [0, 1]
""")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MOMENTS = ("at", "created_at", "started_at", "ended_at", "heartbeat_at", "lease_until", "runner_until")


def old_database(url, revision):
    """A database as an earlier version made it, with a row in every table."""
    engine = make_engine(url)
    config = alembic_config()
    with schema_transaction(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        found = MetaData()
        found.reflect(connection)
        tables = found.tables

        def add(table, **values):
            moments = {one.name: NOW for one in tables[table].columns if one.name in MOMENTS}
            connection.execute(insert(tables[table]).values({**moments, **values}))

        study = {"id": 7, "name": "old", "digest": STUDY.digest, "spec": STUDY.canonical_json(), "state": "interrupted"}
        add("study", **study, revision=3, priority=0)
        for number, trial in enumerate(trials_of(STUDY)):
            same = {"study_id": 7, "key": trial.key, "position": number, "arm": "bln", "method": "bln"}
            state = "finished" if number == 0 else "waiting"
            add("trial", id=number + 1, **same, seed=trial.seed, spec=trial.model_dump_json(), state=state)
        add("attempt", id=1, trial_id=1, number=1, worker="host/1/0", state="succeeded")
        kept = {"file": "f", "sha256": "0" * 64, "epoch": 3, "judged_under": "FFFF", "validation_loss": 0.5}
        add("checkpoint", id=1, trial_id=1, **kept, provenance={"torch": "2"})
        row = {"configuration": "FFFF", "estimate": "", "batch_size": 25, "split": "test", "state": "measured"}
        add("evaluation", id=1, checkpoint_id=1, **row, n=2, loss=0.5, accuracy=0.5)
        add("outcomes", evaluation_id=1, losses=b"x", correct=b"y")
        add("event", id=1, study_id=7, number=1, kind="study_accepted", trial_id=None, data={})
    before = {name: rows(engine, name) for name in tables if name != "bln_search_version"}
    engine.dispose()
    return before


def rows(engine, table):
    """What a table holds, by the columns it has now."""
    found = MetaData()
    with engine.connect() as connection:
        found.reflect(connection, only=[table])
        return [dict(row._mapping) for row in connection.execute(select(found.tables[table]))]


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_every_row_is_kept(url, revision):
    before = old_database(url, revision)
    ledger = open_ledger(url)
    assert ledger.find_schema_revision() == newest_revision()
    for table, old in before.items():
        new = rows(ledger.database.engine, table)
        assert len(new) == len(old) > 0, table
        for was, now in zip(old, new, strict=True):
            assert {**now, **{name: value for name, value in was.items() if name != "owner"}} == now, table
    line = ledger.listing.find_study(7)
    assert (line.owner, line.title, line.planned, line.results) == ("", "An old study", 2, 1)
    assert [trial.state for trial in ledger.trials.list_trials(7)] == [TrialState.FINISHED, TrialState.WAITING]
    assert ledger.studies.accept(STUDY) == 7  # it is still the same study
    with ledger.database.engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    ledger.close()


def test_a_downgrade_and_back_keeps_studies(url):
    old_database(url, "0002")
    ledger = open_ledger(url)
    config = alembic_config()
    for go, revision in ((command.downgrade, "0002"), (command.upgrade, "head")):
        with schema_transaction(ledger.database.engine) as connection:
            config.attributes["connection"] = connection
            go(config, revision)
    assert len(rows(ledger.database.engine, "trial")) == 2
    ledger.close()
