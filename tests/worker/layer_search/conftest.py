"""A study whose networks are trained and searched once for all tests of this folder."""

from __future__ import annotations

from contextlib import closing

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Scope
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.search.layers import trial_search as layers_of_network
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import layer_search as worker_layers
from bln_search.worker.layer_search import search_layers_of_study
from bln_search.worker.loop import QueueWorker
from tests.worker.layer_search.searched_study import STUDY, copy_of, list_searches


@pytest.fixture(autouse=True)
def _search_in_this_process(monkeypatch):
    """A patch of a test has no effect in other processes, however slow the machine is."""
    monkeypatch.setattr(worker_layers, "_MIN_PARALLEL_SECONDS", float("inf"))


@pytest.fixture(scope="package")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="package")
def environment(home):
    return ExecutionEnvironment(home / "data", home / "cache", FolderStore(home / "checkpoints"))


@pytest.fixture(scope="package")
def analysed(home, environment):
    """A worker and its study, trained, searched and analysed."""
    ledger = open_and_upgrade_ledger(f"sqlite:///{home / 'ledger.sqlite3'}")
    ledger.tokens.create_token("ada", Scope.WRITE)
    worker = QueueWorker(ledger, environment, LocalExecutor(environment, 1), cap=2)
    study_id = worker.ledger.queue.submit_study(parse_study(STUDY), "ada").study_id
    worker.run_until_stopped(once=True)
    yield worker, study_id
    ledger.close()


@pytest.fixture
def ledger_copy(analysed, home, tmp_path):
    with closing(copy_of(home, tmp_path / "copied.sqlite3")) as ledger:
        yield ledger


@pytest.fixture(scope="package")
def uninterrupted(analysed, home, environment):
    """Return the progress lines and stored records of a search that saves its progress after every mini-batch."""
    progress_lines = []
    with closing(copy_of(home, home / "uninterrupted.sqlite3")) as ledger, pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_layers, "_MIN_PARALLEL_SECONDS", float("inf"))
        patch.setattr(worker_layers, "_SAVE_INTERVAL", 0.0)
        patch.setattr(layers_of_network, "MEMORY_LIMIT", 0)
        search_layers_of_study(
            ledger, analysed[1], environment, ledger.studies.get(analysed[1]).spec.layers, progress_lines.append
        )
        return progress_lines, list_searches(ledger, analysed[1])
