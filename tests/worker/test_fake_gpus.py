"""A study on eight GPUs that do not exist, with the real driver, processes and ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from bln_search.core.states import StudyState, TrialState
from bln_search.execution.executors import local
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import TaskFailed
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher
from tests.worker import fake_gpus
from tests.worker.fake_gpus import BROKEN, NUM_GPUS

GPUS = [f"cuda:{index}" for index in range(NUM_GPUS)]


def study(durations, seeds):
    rates = ", ".join(map(str, durations))
    return parse_study(f"""
name: fake
data: {{name: digits, fraction: 0.2, validation: 200}}
model: {{name: mlp, widths: [8]}}
arms: [{{method: bln}}]
training: {{epochs: 2}}
space: {{training.learning_rate: {{kind: choice, values: [{rates}]}}}}
search: {{sampler: grid}}
seeds: {list(range(seeds))}
""")


@pytest.fixture
def gpus(environment, monkeypatch):
    """An environment with eight GPUs; a driver that opens one of them fails."""

    def opened(*_arguments):
        raise AssertionError("the driver opened a GPU")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: NUM_GPUS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_lazy_init", opened)
    environment.cache.mkdir(parents=True)
    return replace(environment, device="cuda")


def trials_by_state(ledger, study_id):
    return Counter(trial.state for trial in ledger.trials.list_trials(study_id))


def test_device_and_memory_of_every_trial_are_recorded(ledger, gpus, monkeypatch):
    monkeypatch.setattr(local, "run_worker", fake_gpus.works)
    study_id = ledger.studies.store_study_once(study([0.1], seeds=16))
    run_study(ledger, study_id, LocalExecutor(gpus), RecordingWatcher())
    provenance = [trial.checkpoint.provenance for trial in ledger.trials.list_trials(study_id)]
    assert {origin["device"] for origin in provenance} == set(GPUS)
    assert {(origin["training_peak_memory"], origin["evaluation_peak_memory"]) for origin in provenance} == {(5, 7)}


@pytest.mark.parametrize("main", [fake_gpus.cannot_be_used, fake_gpus.fails_in_trials])
def test_broken_gpu_costs_no_trial(ledger, gpus, monkeypatch, main):
    monkeypatch.setattr(local, "run_worker", main)
    study_id = ledger.studies.store_study_once(study([0.05, 0.1], seeds=15))
    executor = LocalExecutor(gpus)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert trials_by_state(ledger, study_id) == {TrialState.FINISHED: 30}
    assert executor.health.usable_devices == [gpu for gpu in GPUS if gpu != BROKEN]
    assert {device for device, *_ in fake_gpus.read_log(gpus)} == set(executor.health.usable_devices)


def test_broken_gpu_gets_no_trial_that_is_trained_with_others(ledger, gpus, monkeypatch):
    monkeypatch.setattr(local, "run_worker", fake_gpus.cannot_be_used)
    study_id = ledger.studies.store_study_once(study([0.05, 0.1], seeds=15))
    executor = LocalExecutor(gpus, trials_per_process=3)
    watcher = RecordingWatcher()
    assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    assert trials_by_state(ledger, study_id) == {TrialState.FINISHED: 30}
    assert {device for device, *_ in fake_gpus.read_log(gpus)} == {gpu for gpu in GPUS if gpu != BROKEN}
    failures = [message for _, message in watcher.messages if isinstance(message, TaskFailed)]
    assert 1 <= len(failures) <= 3
    assert all(failure.process_lost and failure.device_unusable for failure in failures)


@pytest.mark.parametrize(("device", "workers", "expected"), [("cuda:0,2", None, {"cuda:0", "cuda:2"})])
def test_only_named_gpus_are_used(ledger, gpus, monkeypatch, device, workers, expected):
    monkeypatch.setattr(local, "run_worker", fake_gpus.works)
    study_id = ledger.studies.store_study_once(study([0.1], seeds=8))
    executor = LocalExecutor(replace(gpus, device=device), workers, trials_per_gpu=2)
    run_study(ledger, study_id, executor, RecordingWatcher())
    assert executor.workers == 4
    assert {name for name, *_ in fake_gpus.read_log(gpus)} == expected


def test_second_run_finishes_the_trials_that_the_first_one_left(ledger, gpus, monkeypatch):
    monkeypatch.setattr(local, "run_worker", fake_gpus.works)
    study_id = ledger.studies.store_study_once(study([0.05, 0.2], seeds=12))

    def stop():
        return trials_by_state(ledger, study_id)[TrialState.FINISHED] >= 10

    with pytest.raises(KeyboardInterrupt):
        run_study(ledger, study_id, LocalExecutor(gpus), RecordingWatcher(), stop)
    before = {trial.id for trial in ledger.trials.list_trials(study_id) if trial.state is TrialState.FINISHED}
    assert 10 <= len(before) < 24
    assert run_study(ledger, study_id, LocalExecutor(gpus), RecordingWatcher()) is StudyState.COMPLETE
    assert trials_by_state(ledger, study_id) == {TrialState.FINISHED: 24}
    carried_out = [key for *_, key in fake_gpus.read_log(gpus)]
    finished_before = {trial.key for trial in ledger.trials.list_trials(study_id) if trial.id in before}
    assert all(carried_out.count(key) == 1 for key in finished_before)
