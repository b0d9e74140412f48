"""The process that runs trials ends with its driver, without an error."""

from __future__ import annotations

import threading
from multiprocessing import Pipe

from bln_search.core.checkpoints import FolderStore
from bln_search.core.records import EpochRecord
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors import trial_group, worker_process
from bln_search.execution.messages import EpochDone, TaskFailed, TrialTask
from bln_search.specs import list_planned_trial_specs, parse_study

STUDY = """
name: x
data: {name: mnist}
model: {name: mlp}
arms: [{method: bn}]
seeds: [0]
"""


def test_a_message_to_a_driver_that_has_ended_is_no_error(tmp_path, monkeypatch):
    """The trial finds no data set, which cannot be sent either."""
    monkeypatch.setattr(worker_process, "exit_when_parent_ends", lambda: None)
    monkeypatch.setattr(worker_process, "ignore_signals_to_process_group", lambda: None)
    driver, worker = Pipe()
    (trial,) = list_planned_trial_specs(parse_study(STUDY))
    driver.send(TrialTask(1, trial))
    driver.close()
    worker_process.run_worker(worker, ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path)))


def test_epochs_before_a_failure_are_sent_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_process, "exit_when_parent_ends", lambda: None)
    monkeypatch.setattr(worker_process, "ignore_signals_to_process_group", lambda: None)
    epochs = [EpochDone(EpochRecord(epoch, 1.0, 0.5, 1.0, 0.5, 0.1)) for epoch in range(1, 6)]

    def run_task(_task, _environment, send):
        yield None
        for message in epochs:
            send(message)
            yield message.record
        raise TypeError("a bug")

    monkeypatch.setattr(trial_group, "run_trial_task_announcing_epochs", run_task)
    driver, worker = Pipe()
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path))
    thread = threading.Thread(target=worker_process.run_worker, args=(worker, environment), daemon=True)
    thread.start()
    assert driver.recv() is worker_process.READY
    (trial,) = list_planned_trial_specs(parse_study(STUDY))
    driver.send(TrialTask(1, trial))
    received = [driver.recv() for _ in range(6)]
    driver.close()
    thread.join(timeout=60)
    assert received[:5] == [(1, message) for message in epochs]
    assert isinstance(received[5][1], TaskFailed)
