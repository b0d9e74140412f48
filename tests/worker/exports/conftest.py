"""A complete study with trained networks, and what builds its exports."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import ArchiveContents, Scope
from bln_search.core.exports import ExportKey
from bln_search.core.records import RowKey
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker.exports import builder as builder_module
from bln_search.worker.exports.builder import ArchiveRetentionLimits, ExportBuilder
from bln_search.worker.loop import QueueWorker
from tests.worker.worker_study import worker_study

WEEK = timedelta(days=7)
LIMITS = ArchiveRetentionLimits(WEEK, 10**9)


class Trained:
    """One trained network in a home of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.ledger = open_and_upgrade_ledger(f"sqlite:///{folder / 'ledger.sqlite3'}")
        self.ledger.tokens.create_token("ada", Scope.WRITE)
        self.environment = ExecutionEnvironment(folder / "data", folder / "cache", FolderStore(folder / "checkpoints"))
        self.study_id = self.ledger.queue.submit_study(worker_study("small"), "ada").study_id
        self.worker().run_until_stopped(once=True)

    def builder(self, limits=LIMITS, environment=None):
        return ExportBuilder(self.ledger, environment or self.environment, limits)

    def worker(self, builder=None):
        return QueueWorker(self.ledger, self.environment, LocalExecutor(self.environment, 1), 2, exports=builder)

    def request(self, code="TTTT", archive_format=ArchiveContents.SAFETENSORS):
        (trial,) = self.ledger.trials.list_trials(self.study_id)
        estimate = "frozen" if "T" in code else None
        row = RowKey("bln", "", InferenceConfiguration(code), estimate, 25)
        return self.ledger.exports.request_export(
            self.study_id, ExportKey(trial.id, row, archive_format), "ada", keep=WEEK
        )

    def find(self, record):
        return self.ledger.exports.find_export(self.study_id, record.id)

    def archives(self):
        """Names of the archives in the store."""
        return {file.name for file in self.environment.checkpoints.iter_files() if file.name.endswith(".zip")}

    def run(self, builder):
        """Build what is requested, then end."""
        builder.start_thread("host/1/0", threading.Event())
        builder.wait_for_thread()


@pytest.fixture(scope="package")
def trained_home(tmp_path_factory):
    made = Trained(tmp_path_factory.mktemp("trained"))
    yield made
    made.ledger.close()


@pytest.fixture
def trained(trained_home):
    """The trained network, without earlier exports."""
    with trained_home.ledger.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM export")
    for name in trained_home.archives():
        trained_home.environment.checkpoints.delete(name)
    return trained_home


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(builder_module, "_RETRY_DELAY", 0.0)
