"""Studies with Ray Tune: the results of the local executor, and failures of processes and clusters."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from dataclasses import replace

import psutil
import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import ClusterError, DataUnavailableOnMachineError
from bln_search.core.records import FUSED_EPOCHS
from bln_search.core.states import FailureClass, StudyState, TrialState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.executors.ray.executor import RayExecutor
from bln_search.execution.executors.ray.task_groups import SequenceGrouper
from bln_search.execution.messages import PhaseProgress, TaskFailed
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher
from tests.worker.small_study import SMALL_STUDY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("default"),  # Ray's own are not ours to mend
]
# longer than the two seconds between two results of a process
LONG = SMALL_STUDY.replace("LR", "0.002").replace("epochs: 2", "epochs: 800").replace("small", "long")


@pytest.fixture(scope="module")
def executor(tmp_path_factory):
    """One cluster for all that leave it as it was."""
    from bln_search.execution.environment import ExecutionEnvironment

    folder = tmp_path_factory.mktemp("ray")
    with RayExecutor(
        ExecutionEnvironment(folder / "data", folder / "cache", FolderStore(folder / "checkpoints")), 2
    ) as opened:
        yield opened


def workers():
    process = psutil.Process()
    return [one for one in process.children(recursive=True) if one.name().startswith("ray::TaskTrain")]


def figures(opened, study_id):
    return [
        (
            record.arm,
            record.seed,
            str(record.evaluation.key.configuration),
            record.evaluation.key.split,
            record.evaluation.loss,
        )
        for record in opened.results.list_clean_evaluations(study_id)
    ]


def test_evaluations_equal_those_of_the_local_executor(executor, ledger, environment, tmp_path):
    spec = parse_study(SMALL_STUDY.replace("LR", "0.002"))
    study_id = ledger.studies.store_study_once(spec)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    other = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    other_id = other.studies.store_study_once(spec)
    run_study(other, other_id, LocalExecutor(environment, 2), RecordingWatcher())
    assert figures(ledger, study_id) == figures(other, other_id)
    other.close()


def test_short_trials_run_in_sequences_with_the_same_results(executor, ledger, environment, tmp_path, monkeypatch):
    lengths, take_tasks = [], SequenceGrouper.take_tasks

    def record_length(*arguments):
        tasks = take_tasks(*arguments)
        lengths.append(len(tasks))
        return tasks

    monkeypatch.setattr(SequenceGrouper, "take_tasks", record_length)
    spec = parse_study(SMALL_STUDY.replace("LR", "0.002").replace("[0, 1]", str(list(range(24)))))
    study_id = ledger.studies.store_study_once(spec)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert max(lengths) > 2
    assert {trial.state for trial in ledger.trials.list_trials(study_id)} == {TrialState.FINISHED}
    other = open_and_upgrade_ledger(f"sqlite:///{tmp_path / 'other.sqlite3'}")
    other_id = other.studies.store_study_once(spec)
    run_study(other, other_id, LocalExecutor(environment, 2), RecordingWatcher())
    assert figures(ledger, study_id) == figures(other, other_id)
    other.close()


def test_several_tasks_of_a_process_are_trained_as_one_program(executor, ledger, environment, monkeypatch):
    monkeypatch.setattr(executor, "trials_per_process", 3)
    monkeypatch.setattr(executor, "max_workers", 1)
    spec = parse_study(SMALL_STUDY.replace("LR", "0.002").replace("[0, 1]", "[0, 1, 2, 3, 4]"))
    alone, together = (ledger.studies.store_study_once(spec.model_copy(update={"name": name})) for name in ("a", "b"))
    run_study(ledger, alone, LocalExecutor(environment, 1), RecordingWatcher())
    assert run_study(ledger, together, executor, RecordingWatcher()) is StudyState.COMPLETE
    epochs = [trial.checkpoint.provenance[FUSED_EPOCHS] for trial in ledger.trials.list_trials(together)]
    assert epochs == [2] * 5  # three trials, then two
    assert [figure[-1] for figure in figures(ledger, together)] == pytest.approx(
        [figure[-1] for figure in figures(ledger, alone)], rel=1e-4
    )


def test_search_prunes_and_samples_all_its_points(executor, ledger):
    spec = parse_study(
        """
name: searched
data: {name: digits, fraction: 0.2, validation: 200}
model: {name: mlp, widths: [8]}
arms: [{method: mbn, lambda: 0.5}]
training: {epochs: 6, optimizer: sgd}
seeds: [0]
space: {training.learning_rate: {kind: float, low: 1e-4, high: 1, log: true}}
search: {sampler: random, trials: 8, pruner: asha}
"""
    )
    study_id = ledger.studies.store_study_once(spec)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    states = ledger.studies.get_by_name_or_id("searched").trials
    assert sum(states.values()) == 8
    assert states[TrialState.PRUNED] > 0
    assert states[TrialState.FINISHED] > 0


def test_killed_process_is_noticed_and_its_trial_retried(executor, ledger):
    study_id = ledger.studies.store_study_once(parse_study(LONG))
    killed, noticed = [], []

    def watch(message):
        if not killed and isinstance(message, PhaseProgress):
            killed.append(time.monotonic())
            os.kill(workers()[0].pid, signal.SIGKILL)
        if isinstance(message, TaskFailed):
            noticed.append((time.monotonic(), message))

    assert run_study(ledger, study_id, executor, RecordingWatcher(watch)) is StudyState.COMPLETE
    assert [message.failure for _, message in noticed] == [FailureClass.INFRASTRUCTURE]
    assert "worker process ended" in noticed[0][1].reason
    assert noticed[0][0] - killed[0] < 5
    assert ledger.studies.get_by_name_or_id("long").trials == {TrialState.FINISHED: 2}


def test_trial_without_progress_is_ended_and_retried(executor, ledger, monkeypatch):
    monkeypatch.setattr(executor, "environment", replace(executor.environment, trial_timeout=40.0))
    study_id = ledger.studies.store_study_once(parse_study(LONG))
    stopped, failures = [], []

    def watch(message):
        if not stopped and isinstance(message, PhaseProgress):
            stopped.append(workers()[0])
            stopped[0].suspend()
        if isinstance(message, TaskFailed):
            failures.append(message)

    assert run_study(ledger, study_id, executor, RecordingWatcher(watch)) is StudyState.COMPLETE
    assert [failure.failure for failure in failures] == [FailureClass.INFRASTRUCTURE]
    assert "no progress for 40 seconds" in failures[0].reason
    assert not stopped[0].is_running()
    assert ledger.studies.get_by_name_or_id("long").trials == {TrialState.FINISHED: 2}


def test_user_error_is_tried_once(executor, ledger):
    spec = parse_study(SMALL_STUDY.replace("LR", "0.002"))  # accepted by an earlier version with a larger mini-batch
    training = spec.training.model_copy(update={"batch_size": 1500})
    study_id = ledger.studies.store_study_once(spec.model_copy(update={"training": training}))
    watcher = RecordingWatcher()
    assert run_study(ledger, study_id, executor, watcher) is StudyState.FAILED
    failures = [message for _, message in watcher.messages if isinstance(message, TaskFailed)]
    assert [failure.failure for failure in failures] == [FailureClass.USER_ERROR] * 2
    assert "a mini-batch of 1500 examples is larger than" in failures[0].reason


def test_missing_data_on_a_node_fails_no_trial(executor, ledger):
    spec = parse_study(SMALL_STUDY.replace("LR", "0.002").replace("name: digits", "name: cifar10"))
    study_id = ledger.studies.store_study_once(spec)
    said = rf"on {re.escape(socket.gethostname())}: data_batch_1\.bin .* --data"
    with pytest.raises(DataUnavailableOnMachineError, match=said):
        run_study(ledger, study_id, executor, RecordingWatcher())
    assert ledger.studies.get(study_id).state is StudyState.INTERRUPTED
    assert ledger.studies.get(study_id).trials == {TrialState.WAITING: 2}


def test_driver_error_ends_the_run_and_releases_trials(executor, ledger):
    study_id = ledger.studies.store_study_once(parse_study(LONG))

    class Stop(Exception):
        pass

    stopped = []

    def stop(message):
        if isinstance(message, PhaseProgress) and not stopped:
            stopped.append(time.monotonic())
            raise Stop

    with pytest.raises(Stop):
        run_study(ledger, study_id, executor, RecordingWatcher(stop))
    assert time.monotonic() - stopped[0] < 5
    assert ledger.studies.get_by_name_or_id("long").trials.get(TrialState.RUNNING, 0) == 0
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE


def test_too_many_gpus_are_rejected(environment):
    with (
        pytest.raises(ClusterError, match="a part of one GPU or whole GPUs"),
        RayExecutor(environment, gpus_per_trial=1.5),
    ):
        pass


def test_second_cluster_in_one_process_is_rejected(executor, environment):
    with pytest.raises(ClusterError, match="joined a Ray cluster already"), RayExecutor(environment):
        pass


def test_lost_cluster_ends_the_run(executor, ledger):
    """In one test, as the cluster of the module does not survive it."""
    with pytest.raises(ClusterError, match="asks for 1 GPUs, no node of the Ray cluster has more than 0"):
        executor._cluster.check_trial_fits_a_node(1.0, 1.0)
    with pytest.raises(ClusterError, match="asks for 64 CPUs"):
        executor._cluster.check_trial_fits_a_node(64.0, 0.0)
    study_id = ledger.studies.store_study_once(parse_study(LONG))

    def kill(message):
        if isinstance(message, PhaseProgress):
            os.kill(executor._cluster.raylet_pid, signal.SIGKILL)

    start = time.monotonic()
    with pytest.raises(ClusterError, match="the Ray cluster is gone: its raylet ended"):
        run_study(ledger, study_id, executor, RecordingWatcher(kill))
    assert time.monotonic() - start < 60
    assert ledger.studies.get_by_name_or_id("long").state is StudyState.INTERRUPTED
    assert ledger.studies.get_by_name_or_id("long").trials.get(TrialState.RUNNING, 0) == 0


@pytest.mark.parametrize(
    "address", ["nowhere", "127.0.0.1:1", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:6379²", "host:port"]
)
def test_unreachable_cluster_raises_an_error_within_seconds(address, environment):
    from bln_search.execution.executors.ray.cluster import _join_cluster

    start = time.monotonic()
    with pytest.raises(ClusterError, match=r"not the address of a Ray cluster|no Ray cluster at"):
        _join_cluster(address)
    assert time.monotonic() - start < 15


def test_other_server_is_rejected_as_cluster(monkeypatch):
    from bln_search.execution.executors.ray import cluster

    monkeypatch.setattr(cluster, "_CONNECT_TIMEOUT", 4.0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(ClusterError, match=r"does not answer like a Ray cluster|refuses"):
            cluster._join_cluster(f"127.0.0.1:{listener.getsockname()[1]}")
