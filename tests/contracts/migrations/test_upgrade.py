"""A database of any schema since revision 0005 is upgraded and keeps every row."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents, Split
from bln_search.core.exports import ExportKey
from bln_search.core.records import RowKey
from bln_search.core.states import TrialState
from bln_search.ranking.metrics import MeanStd, SplitMetrics
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.storage.migration import newest_known_schema_revision
from tests.contracts.migrations.old_databases import STUDY, create_old_database, read_rows

pytestmark = pytest.mark.promise

ADDED = {"condition": "", "kind": "trained", "study_id": None, "metrics": None, "code": None}
"""Values of the columns that came after revision 0005, by name."""


@pytest.mark.parametrize("revision", ["0005", "0009", "0012"])
def test_upgrade_keeps_every_row(url, revision):
    before = create_old_database(url, revision)
    ledger = open_and_upgrade_ledger(url)
    assert ledger.find_schema_revision() == newest_known_schema_revision()
    for table, rows in before.items():
        after = read_rows(ledger.database.engine, table)
        assert len(rows) > 0, table
        assert after == [{**{name: ADDED.get(name) for name in after[0]}, **row} for row in rows], table
    assert ledger.studies.store_study_once(STUDY) == 7  # it is still the same study
    assert [trial.state for trial in ledger.trials.list_trials(7)] == [TrialState.FINISHED, TrialState.WAITING]
    board = ledger.results.rank_rows_of_study(7, STUDY)
    assert [(str(row.configuration), row.batch_size, row.metrics, row.conditions) for row in board.rows] == [
        ("FFFF", 25, {Split.TEST: SplitMetrics(MeanStd(0.5, None), MeanStd(0.5, None))}, None)
    ]
    assert board.task_metric_names == ()
    row = RowKey("bln", "", InferenceConfiguration("FFFF"), None, 25)
    ledger.exports.request_export(7, ExportKey(1, row, ArchiveContents.ALL), "ada", keep=timedelta(days=1))
    assert ledger.export_jobs.claim_next_export("host/1/0", lambda _: True).key.trial_id == 1
    with ledger.database.engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    ledger.close()
