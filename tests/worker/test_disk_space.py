"""Without free disk space no trial starts; running ones end, and work resumes later."""

from __future__ import annotations

import errno
import shutil
import threading
import time

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Scope
from bln_search.core.files import disk as core_disk
from bln_search.core.files.disk import find_disk_space_problem
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import TrainingDone
from bln_search.settings import Settings
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import loop
from bln_search.worker.loop import QueueWorker

STUDY = parse_study("""
name: small
data: {name: digits, fraction: 0.2}
model: {name: mlp, widths: [4]}
arms: [{method: bln}]
seeds: [0, 1, 2]
training: {epochs: 1, batch_size: 25}
""")


class Disk:
    """The real room of this disk, against a bound that can be set above or below it."""

    def __init__(self, home):
        self.settings = Settings(home=home, free_bytes=0)

    def fill(self):
        more_than_total = shutil.disk_usage(self.settings.home).total + 1
        self.settings = self.settings.model_copy(update={"free_bytes": more_than_total})

    def empty(self):
        self.settings = self.settings.model_copy(update={"free_bytes": 0})

    def find_problem(self):
        return find_disk_space_problem(self.settings.output_folders, self.settings.free_bytes)


@pytest.fixture
def disk(home):
    home.mkdir()
    return Disk(home)


@pytest.fixture
def worker(tmp_path, disk, monkeypatch):
    monkeypatch.setattr(loop, "_RETRY_DELAY", 0.1)
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    ledger.tokens.create_token("ada", Scope.WRITE)
    environment = ExecutionEnvironment(tmp_path / "data", tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    yield QueueWorker(ledger, environment, LocalExecutor(environment, 1), cap=2, find_disk_problem=disk.find_problem)
    ledger.close()


def line(worker, study_id):
    return worker.ledger.study_lists.find_study_item(study_id)


@pytest.mark.slow
def test_no_study_starts_without_disk_space(worker, disk, caplog):
    """The log says it once."""
    study_id = worker.ledger.queue.submit_study(STUDY, "ada").study_id
    disk.fill()
    threading.Timer(1.0, disk.empty).start()
    started = time.monotonic()
    worker.run_until_stopped(once=True)
    assert time.monotonic() - started > 1.0
    assert line(worker, study_id).state == StudyState.COMPLETE
    log_lines = [record.message for record in caplog.records]
    assert [line for line in log_lines if line.startswith("no study starts: only ")] == [log_lines[0]]
    assert "free some, for example with `bln-search checkpoints clean`" in log_lines[0]
    assert log_lines[1] == "enough disk space is free again"


@pytest.mark.slow
def test_running_trials_end_and_others_wait_for_disk_space(worker, disk, monkeypatch):
    study_id = worker.ledger.queue.submit_study(STUDY, "ada").study_id
    states = []
    log_message = loop._LoggingRunWatcher.on_message

    def fill_when_trained(self, trial, message):
        log_message(self, trial, message)
        if isinstance(message, TrainingDone) and not states:
            disk.fill()
            states.append("full")

    def look_and_empty():
        while line(worker, study_id).state != StudyState.ACCEPTED or not states:
            time.sleep(0.02)
        states.append({str(trial.state) for trial in worker.ledger.trials.list_trials(study_id)})
        disk.empty()

    monkeypatch.setattr(loop._LoggingRunWatcher, "on_message", fill_when_trained)
    threading.Thread(target=look_and_empty, daemon=True).start()
    worker.run_until_stopped(once=True)
    assert states == ["full", {"finished", "waiting"}]
    assert line(worker, study_id).state == StudyState.COMPLETE
    kinds = [event.kind for event in worker.ledger.events.list_events(study_id)]
    assert kinds.count("attempt_started") == 3  # nothing was given up and begun anew


def test_unknown_disk_space_is_a_problem_without_a_password(tmp_path, monkeypatch):
    """A shared folder that does not answer for a moment makes no study fail, nor does a password that is not there."""
    url, missing = "postgresql+psycopg://me@host/name", tmp_path / "none"
    settings = Settings(home=tmp_path, database=url, database_password_file=missing, free_bytes=0)
    assert find_disk_space_problem(settings.output_folders, settings.free_bytes) is None

    def stale(_folder):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(core_disk, "measure_disk_usage", stale)
    assert "(Stale file handle); check" in find_disk_space_problem(settings.output_folders, settings.free_bytes)


def test_folders_of_another_user_are_not_reported_as_a_full_disk(tmp_path, monkeypatch):
    def refuse(_folder):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(core_disk, "measure_disk_usage", refuse)
    problem = find_disk_space_problem([tmp_path], 0)
    assert problem.endswith("(Permission denied); give this user access to their folders, or set BLN_SEARCH_HOME")
