"""A worker waits for a checkpoint store that fails, and goes on by itself: no attempt is spent, no study fails."""

from __future__ import annotations

import errno
import logging
import os
import threading
from dataclasses import replace

import pytest

from bln_search.core.checkpoints import FolderStore, retries
from bln_search.core.enums import Scope
from bln_search.core.errors import CheckpointStoreError
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors.base import make_task_failed_message
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import EpochDone, TrainingDone, TrainingResumed
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import loop, run_study
from bln_search.worker.loop import QueueWorker
from tests.support.tiers import thinned
from tests.support.watchers import RecordingWatcher
from tests.worker.small_study import small_study


class FaultyFolder:
    """A folder that another file replaces until the worker has logged that it waits."""

    def __init__(self, path):
        self.store, self.away = FolderStore(path), path.with_name("away")
        self.is_faulty = False

    def begin_fault(self):
        self.is_faulty = True
        self.store.path.rename(self.away)
        self.store.path.write_text("no folder")

    def begin_fault_without_folder(self):
        self.is_faulty = True
        self.store.path.rename(self.away)

    def end_fault(self):
        self.is_faulty = False
        self.store.path.unlink(missing_ok=True)
        self.away.rename(self.store.path)


class FaultExecutor:
    """Runs trials in this process, reports their errors as a process does, and calls a function with each message."""

    def __init__(self, environment, on_message):
        self.environment, self.on_message = environment, on_message
        self.messages = []

    def num_parallel_trials(self, _trials):
        return 1

    def run(self, next_task, report, pulse, trials=1):
        while (task := next_task()) is not None:

            def send(message, task=task):
                self.messages.append((task.trial.seed, message))
                report(task, message)
                self.on_message(message)

            try:
                for _ in iter_epochs_of_trial_task(task, self.environment, send):
                    pulse([])
            except Exception as error:  # noqa: BLE001 - as a process does
                report(task, make_task_failed_message(error))


@pytest.fixture
def folder(tmp_path):
    return FaultyFolder(tmp_path / "checkpoints")


@pytest.fixture
def make_worker(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(loop, "_RETRY_DELAY", 0.05)
    monkeypatch.setattr(retries, "_DELAYS", (0.01,))
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    ledger.tokens.create_token("ada", Scope.WRITE)
    environment = ExecutionEnvironment(tmp_path, tmp_path, folder.store, save_seconds=0)
    yield lambda executor: QueueWorker(ledger, environment, executor(environment), cap=2)
    ledger.close()


class EndsFault(logging.Handler):
    """Ends a fault when the worker has logged that it waits."""

    def __init__(self, end_fault):
        super().__init__()
        self.end_fault, self.waits = end_fault, 0

    def emit(self, record):
        if "no study starts until the store works" in record.getMessage():
            self.waits += 1
            self.end_fault()


@pytest.fixture
def ends_fault(folder):
    handler = EndsFault(lambda: threading.Timer(0.3, folder.end_fault).start())
    loop._log.addHandler(handler)
    yield handler
    loop._log.removeHandler(handler)


def kinds_of_events(worker, study_id):
    return [event.kind for event in worker.ledger.events.list_events(study_id)]


def run_with_fault(make_worker, on_message):
    executors = []

    def make_executor(environment):
        executors.append(FaultExecutor(environment, on_message))
        return executors[0]

    worker = make_worker(make_executor)
    study_id = worker.ledger.queue.submit_study(small_study(), "ada").study_id
    worker.run_until_stopped(once=True)
    assert worker.ledger.study_lists.find_study_item(study_id).state == StudyState.COMPLETE
    assert "attempt_failed" not in kinds_of_events(worker, study_id)
    return [message for seed, message in executors[0].messages if seed == 0]


def test_a_network_that_cannot_be_saved_is_saved_when_the_store_works_again(make_worker, folder, ends_fault):
    faults = iter([folder.begin_fault])

    def begin_after_last_epoch(message):
        if isinstance(message, EpochDone) and message.record.epoch == 2:
            next(faults, lambda: None)()

    messages = run_with_fault(make_worker, begin_after_last_epoch)
    assert ends_fault.waits == 1
    resumed = [len(message.records) for message in messages if isinstance(message, TrainingResumed)]
    assert resumed == [1]  # the state after the first epoch was saved


@pytest.mark.parametrize("begin", thinned(["begin_fault", "begin_fault_without_folder"], 2))
def test_a_trained_network_that_cannot_be_read_is_not_trained_again(make_worker, folder, ends_fault, begin):
    faults = iter([getattr(folder, begin)])

    def begin_after_training(message):
        if isinstance(message, TrainingDone):
            for fault in faults:
                fault()
                raise CheckpointStoreError("the evaluation cannot read the store")

    messages = run_with_fault(make_worker, begin_after_training)
    assert ends_fault.waits >= 1
    assert sum(isinstance(message, TrainingDone) for message in messages) == 1


def test_a_training_whose_state_cannot_be_read_is_not_begun_anew(make_worker, folder, ends_fault):
    faults = iter([folder.begin_fault_without_folder])

    def begin_after_first_state(message):
        if isinstance(message, EpochDone) and message.record.epoch == 2:
            for fault in faults:
                fault()
                raise CheckpointStoreError("the process ends")

    messages = run_with_fault(make_worker, begin_after_first_state)
    assert ends_fault.waits >= 1
    assert [len(message.records) for message in messages if isinstance(message, TrainingResumed)] == [1]


@pytest.mark.parametrize("number", thinned([errno.EROFS, errno.EIO, errno.ESTALE, errno.EACCES], 3))
def test_a_store_fault_releases_the_run_of_a_command_and_spends_no_attempt(tmp_path, folder, monkeypatch, number):
    def fail(*_arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(retries, "_DELAYS", (0.01,))
    ledger = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    environment = ExecutionEnvironment(tmp_path, tmp_path, folder.store)
    executor = FaultExecutor(environment, lambda _message: None)
    study_id = ledger.studies.store_study_once(small_study())
    with monkeypatch.context() as patch:
        patch.setattr("bln_search.core.checkpoints.folder.write_atomically", fail)
        with pytest.raises(CheckpointStoreError, match=os.strerror(number)):
            run_study(ledger, study_id, executor, RecordingWatcher())
    assert ledger.studies.get(study_id).state is StudyState.INTERRUPTED
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    ledger.close()


@pytest.mark.slow
def test_a_process_of_a_trial_waits_for_a_short_fault(make_worker, folder):
    """The process repeats the write by itself: the network is trained once, and the run never ends."""
    begun = []

    class FaultWatchingExecutor(LocalExecutor):
        def run(self, next_task, report, pulse, trials=1):
            def report_and_begin_fault(task, message):
                if isinstance(message, EpochDone) and not begun:
                    begun.append(message)
                    folder.begin_fault()
                    threading.Timer(1.0, folder.end_fault).start()
                return report(task, message)

            super().run(next_task, report_and_begin_fault, pulse, trials)

    worker = make_worker(lambda environment: FaultWatchingExecutor(replace(environment, save_seconds=None), 1))
    study_id = worker.ledger.queue.submit_study(small_study(), "ada").study_id
    worker.run_until_stopped(once=True)
    assert kinds_of_events(worker, study_id).count("attempt_started") == 2
    assert worker.ledger.study_lists.find_study_item(study_id).state == StudyState.COMPLETE
