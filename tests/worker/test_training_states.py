"""A run names the file of each trial's training state, and removes it when the end of the training is stored."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import psutil
import pytest

from bln_search.core.enums import Scope
from bln_search.core.records import CheckpointRecord, EpochRecord
from bln_search.core.states import FailureClass, StudyState
from bln_search.core.training_states import training_state_file_name
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import (
    EpochDone,
    EvaluationDone,
    TaskFailed,
    TrainingDiverged,
    TrainingDone,
    TrainingResumed,
    TrainingStateSaved,
)
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher
from tests.worker.scripted_executor import ScriptedExecutor
from tests.worker.small_study import SMALL_STUDY, small_study

DONE = (TrainingDone(CheckpointRecord("file", "0" * 64, 1, "FFFF", 0.5, {})), EvaluationDone(()))
EPOCH = EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 1.5)


class WritingExecutor(ScriptedExecutor):
    """Writes the file of each trial whose state is reported as saved."""

    def __init__(self, store, *messages):
        super().__init__(*messages)
        self.store = store

    def run(self, next_task, report, pulse, trials=1):
        def write_and_report(task, message):
            if isinstance(message, TrainingStateSaved):
                self.store.write(task.state_file, b"state")
            return report(task, message)

        super().run(next_task, write_and_report, pulse, trials)


@pytest.fixture
def store(environment):
    return environment.checkpoints


def states(store):
    return {file.name for file in store.iter_files()}


def run(ledger, study_id, store, *messages):
    executor = WritingExecutor(store, *messages)
    state = run_study(ledger, study_id, executor, RecordingWatcher(), checkpoints=store)
    return state, executor.tasks


def test_the_file_is_removed_when_training_has_ended(ledger, store):
    study_id = ledger.studies.store_study_once(small_study())
    ends = (TrainingStateSaved(), *DONE), (TrainingStateSaved(), TrainingDiverged("why"))
    state, tasks = run(ledger, study_id, store, *ends)
    assert state is StudyState.COMPLETE
    assert [task.state_file for task in tasks] == [training_state_file_name(study_id, task.trial.key) for task in tasks]
    assert states(store) == set()


def test_the_file_of_an_earlier_run_is_removed_after_its_trial_resumed(ledger, store):
    study_id = ledger.studies.store_study_once(small_study())
    files = [training_state_file_name(study_id, trial.key) for trial in ledger.trials.list_claimable_trials(study_id)]
    for file in files:
        store.write(file, b"state")
    state, _ = run(ledger, study_id, store, (TrainingResumed((EPOCH,)), *DONE), (TrainingResumed(()), *DONE))
    assert state is StudyState.COMPLETE
    assert states(store) == set()


def test_the_file_of_a_failed_trial_is_kept_for_the_next_run(ledger, store):
    study_id = ledger.studies.store_study_once(small_study())
    failed = TrainingStateSaved(), TaskFailed(FailureClass.USER_ERROR, "why")
    _, tasks = run(ledger, study_id, store, failed, DONE)
    assert states(store) == {tasks[0].state_file}
    _, (again,) = run(ledger, study_id, store, (TrainingResumed((EPOCH,)), *DONE))
    assert again.state_file == tasks[0].state_file
    assert states(store) == set()


@pytest.mark.parametrize("request_name", ["pause", "cancel"])
def test_a_paused_study_keeps_its_states_and_a_cancelled_one_does_not(ledger, store, request_name, monkeypatch):
    monkeypatch.setattr("bln_search.worker.study_run._REQUEST_INTERVAL", 0.0)
    ledger.tokens.create_token("ada", Scope.WRITE)
    study_id = ledger.queue.submit_study(small_study(), "ada").study_id

    class RequestedExecutor(WritingExecutor):
        def run(self, next_task, report, pulse, trials=1):
            task = next_task()
            self.store.write(task.state_file, b"state")
            report(task, TrainingStateSaved())
            getattr(ledger.queue, request_name)(study_id)
            pulse([task.token])

    state = run_study(ledger, study_id, RequestedExecutor(store), RecordingWatcher(), checkpoints=store)
    assert state is (StudyState.PAUSED if request_name == "pause" else StudyState.CANCELLED)
    assert len(states(store)) == (request_name == "pause")


@pytest.mark.slow
def test_a_trial_whose_process_is_killed_resumes_in_another_process(ledger, environment):
    study_id = ledger.studies.store_study_once(
        parse_study(SMALL_STUDY.replace("LR", "0.002").replace("epochs: 2", "epochs: 40"))
    )
    executor = LocalExecutor(replace(environment, save_seconds=0), 1)
    killed = []

    def kill_once(message):
        if isinstance(message, EpochDone) and message.record.epoch == 5 and not killed:
            killed.append(message)
            (worker,) = executor_processes()
            os.kill(worker.pid, signal.SIGKILL)

    watcher = RecordingWatcher(kill_once)
    state = run_study(ledger, study_id, executor, watcher, checkpoints=environment.checkpoints)
    assert state is StudyState.COMPLETE
    resumed = [message for _, message in watcher.messages if isinstance(message, TrainingResumed)]
    assert len(resumed) == 1
    assert len(resumed[0].records) >= 4
    assert not any(name.endswith(".state") for name in states(environment.checkpoints))


def executor_processes():
    process = psutil.Process()
    return [
        child
        for child in process.children(recursive=True)
        if child.ppid() != process.pid and "forkserver" in " ".join(child.cmdline())
    ]
