"""Fixtures of runs and workers."""

from __future__ import annotations

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Scope
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker.loop import QueueWorker


@pytest.fixture
def ledger(tmp_path):
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    yield ledger
    ledger.close()


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    return ExecutionEnvironment(tmp_path / "data", tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))


@pytest.fixture
def worker(tmp_path):
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    ledger.tokens.create_token("ada", Scope.WRITE)
    environment = ExecutionEnvironment(tmp_path / "data", tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    yield QueueWorker(ledger, environment, LocalExecutor(environment, 1), cap=2)
    ledger.close()
