"""A database of any released schema is upgraded and keeps every row."""

from __future__ import annotations

from datetime import timedelta

import pytest
from alembic import command
from sqlalchemy import inspect

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents, Split
from bln_search.core.exports import ExportKey
from bln_search.core.records import RowKey
from bln_search.core.states import TrialState
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.storage.alembic_migrations import make_alembic_config
from bln_search.storage.engine import make_engine, schema_transaction
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.migration import VERSION_TABLE, newest_known_schema_revision
from tests.contracts.migrations.old_databases import STUDY, create_old_database, read_rows

pytestmark = pytest.mark.promise


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_upgrade_keeps_every_row(url, revision):
    before = create_old_database(url, revision)
    ledger = open_and_upgrade_ledger(url)
    assert ledger.find_schema_revision() == newest_known_schema_revision()
    for table, old_rows in before.items():
        new_rows = read_rows(ledger.database.engine, table)
        assert len(new_rows) == len(old_rows) > 0, table
        for old_row, new_row in zip(old_rows, new_rows, strict=True):
            assert {**new_row, **{name: value for name, value in old_row.items() if name != "owner"}} == new_row, table
    line = ledger.listing.find_study_item(7)
    assert (line.owner, line.title, line.planned, line.results) == ("", "An old study", 2, 1)
    assert [trial.state for trial in ledger.trials.list_trials(7)] == [TrialState.FINISHED, TrialState.WAITING]
    assert ledger.studies.store_study_once(STUDY) == 7  # it is still the same study
    with ledger.database.engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    ledger.close()


def test_downgrade_and_upgrade_keep_studies(url):
    create_old_database(url, "0002")
    ledger = open_and_upgrade_ledger(url)
    config = make_alembic_config()
    for migrate, revision in ((command.downgrade, "0002"), (command.upgrade, "head")):
        with schema_transaction(ledger.database.engine) as connection:
            config.attributes["connection"] = connection
            migrate(config, revision)
    assert len(read_rows(ledger.database.engine, "trial")) == 2
    ledger.close()


def test_leaderboard_of_an_old_database_is_unchanged(url):
    create_old_database(url, "0002")
    config = make_alembic_config()
    engine = make_engine(url)
    with schema_transaction(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
    (before,) = read_rows(engine, "evaluation")
    engine.dispose()
    ledger = open_and_upgrade_ledger(url)
    (after,) = read_rows(ledger.database.engine, "evaluation")
    assert after == {**before, "condition": "", "metrics": None}
    assert len(read_rows(ledger.database.engine, "outcomes")) == 1
    board = ledger.results.rank_rows_of_study(7, STUDY)
    assert [(str(row.configuration), row.batch_size, row.metrics, row.conditions) for row in board.rows] == [
        ("FFFF", 25, {Split.TEST: SplitMetrics(MeanStd(0.5, None), MeanStd(0.5, None))}, None)
    ]
    ledger.close()


def test_networks_of_a_database_without_exports_can_be_exported(url):
    create_old_database(url, "0002")
    config, engine = make_alembic_config(), make_engine(url)
    with schema_transaction(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0009")
    tables = [name for name in inspect(engine).get_table_names() if name != VERSION_TABLE]
    before = {table: read_rows(engine, table) for table in tables}
    engine.dispose()
    ledger = open_and_upgrade_ledger(url)
    added = {"evaluation": {"metrics": None}, "study": {"code": None}}
    assert {table: read_rows(ledger.database.engine, table) for table in tables} == {
        table: [{**row, **added.get(table, {})} for row in rows] for table, rows in before.items()
    }
    assert read_rows(ledger.database.engine, "export") == []
    row = RowKey("bln", "", InferenceConfiguration("FFFF"), None, 25)
    ledger.exports.request_export(7, ExportKey(1, row, ArchiveContents.ALL), "ada", keep=timedelta(days=1))
    assert ledger.export_jobs.claim_next_export("host/1/0", lambda _: True).key.trial_id == 1
    with schema_transaction(ledger.database.engine) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0009")
    assert "export" not in inspect(ledger.database.engine).get_table_names()
    assert read_rows(ledger.database.engine, "trial") == before["trial"]
    ledger.close()


def test_evaluations_of_a_database_without_metrics_have_none(url):
    create_old_database(url, "0002")
    config, engine = make_alembic_config(), make_engine(url)
    with schema_transaction(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0010")
    (before,) = read_rows(engine, "evaluation")
    engine.dispose()
    ledger = open_and_upgrade_ledger(url)
    (record,) = ledger.results.list_clean_evaluations(7)
    assert (record.evaluation.loss, dict(record.evaluation.metrics)) == (0.5, {})
    assert ledger.results.rank_rows_of_study(7, STUDY).task_metric_names == ()
    with schema_transaction(ledger.database.engine) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "0010")
    assert read_rows(ledger.database.engine, "evaluation") == [before]
    ledger.close()
