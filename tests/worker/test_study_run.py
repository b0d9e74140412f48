"""A study runs in real processes; a failure costs one trial, not the study."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from bln_search.core.errors import StorageFullError
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import FailureClass, StudyState, TrialState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import EvaluationDone, PhaseProgress, TaskFailed
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher
from tests.worker.small_study import SMALL_STUDY, small_study


def workers():
    """The processes that carry trials out: children of the one that has loaded everything for them."""
    process = psutil.Process()
    return [
        child
        for child in process.children(recursive=True)
        if child.ppid() != process.pid and "forkserver" in " ".join(child.cmdline())
    ]


@pytest.mark.slow
def test_every_trial_is_finished_with_all_its_evaluations(ledger, environment):
    study_id = ledger.studies.store_study_once(small_study())
    watcher = RecordingWatcher()
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), watcher) is StudyState.COMPLETE
    assert len(ledger.results.list_clean_evaluations(study_id)) == 2 * 2 * 16
    assert {kind for kind, _ in watcher.messages} == {"bln seed 0", "bln seed 1"}
    assert any(isinstance(message, PhaseProgress) for _, message in watcher.messages)
    assert len(list(environment.checkpoints.path.iterdir())) == 2
    second_watcher = RecordingWatcher()
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), second_watcher) is StudyState.COMPLETE
    assert second_watcher.messages == []


@pytest.mark.slow
def test_divergence_is_a_result_and_the_study_continues(ledger, environment):
    diverging = parse_study(SMALL_STUDY.replace("LR", "1.0e+30").replace("{epochs: 2,", "{epochs: 2, optimizer: sgd,"))
    study_id = ledger.studies.store_study_once(diverging)
    assert run_study(ledger, study_id, LocalExecutor(environment, 1), RecordingWatcher()) is StudyState.COMPLETE
    assert ledger.studies.get_by_name_or_id("small").trials == {TrialState.DIVERGED: 2}
    assert list(environment.checkpoints.iter_files()) == []


@pytest.mark.slow
def test_killed_process_is_replaced_and_its_trial_retried(ledger, environment):
    study_id = ledger.studies.store_study_once(small_study())
    killed = []

    def kill_once(message):
        if not killed and isinstance(message, PhaseProgress):
            killed.append(workers()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    watcher = RecordingWatcher(kill_once)
    assert run_study(ledger, study_id, LocalExecutor(environment, 1), watcher) is StudyState.COMPLETE
    failures = [message for _, message in watcher.messages if isinstance(message, TaskFailed)]
    assert [failure.failure for failure in failures] == [FailureClass.INFRASTRUCTURE]
    assert "exit code -9" in failures[0].reason
    assert len(ledger.results.list_clean_evaluations(study_id)) == 2 * 2 * 16


@pytest.mark.slow
def test_network_with_a_damaged_file_is_trained_again(ledger, environment):
    study_id = ledger.studies.store_study_once(small_study())
    trial = ledger.trials.list_claimable_trials(study_id)[0]
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    environment.checkpoints.path.joinpath("x").write_bytes(b"broken")
    ledger.attempts.record_checkpoint(token, CheckpointRecord("x", "0" * 64, 1, "FFFF", 0.5, {}))
    ledger.attempts.release_attempts([token])
    assert run_study(ledger, study_id, LocalExecutor(environment, 1), RecordingWatcher()) is StudyState.COMPLETE
    (first, _) = ledger.trials.list_trials(study_id)
    assert first.checkpoint.file != "x"
    assert (environment.checkpoints.path / first.checkpoint.file).is_file()


@pytest.mark.slow
def test_first_error_is_raised_and_trials_are_released(ledger, environment):
    more_than_run_at_once = parse_study(
        SMALL_STUDY.replace("LR", "0.002").replace("[0, 1]", "[0, 1, 2, 3, 4, 5, 6, 7]")
    )
    study_id = ledger.studies.store_study_once(more_than_run_at_once)

    class Stop(Exception):
        pass

    def fail(message):
        if isinstance(message, EvaluationDone):
            raise Stop

    with pytest.raises(Stop):
        run_study(ledger, study_id, LocalExecutor(environment, 2), RecordingWatcher(fail))
    assert ledger.studies.get_by_name_or_id("small").state is StudyState.INTERRUPTED
    assert ledger.studies.get_by_name_or_id("small").trials.get(TrialState.RUNNING, 0) == 0
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), RecordingWatcher()) is StudyState.COMPLETE


@pytest.mark.slow
def test_late_sigterm_reaches_the_previous_handler(ledger, environment):
    """The study is complete all the same; a worker must not take the next one."""

    class StoppedLate(LocalExecutor):
        def run(self, *arguments):
            super().run(*arguments)
            signal.raise_signal(signal.SIGTERM)  # nothing looks for it any more

    study_id, signals = ledger.studies.store_study_once(small_study()), []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    try:
        assert run_study(ledger, study_id, StoppedLate(environment, 1), RecordingWatcher()) is StudyState.COMPLETE
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signals == [signal.SIGTERM]


@pytest.mark.slow
def test_full_disk_ends_the_run_and_releases_trials(ledger, environment):
    """A limit on file sizes stands in for a full disk: the kernel refuses the checkpoint's write in the same place."""
    study_id = ledger.studies.store_study_once(small_study())
    executor = LocalExecutor(environment, 1)
    start = executor._start_worker_process

    def start_limited(live):
        worker = start(live)
        psutil.Process(worker.process.pid).rlimit(psutil.RLIMIT_FSIZE, (2000, 2000))
        return worker

    executor._start_worker_process = start_limited
    with pytest.raises(StorageFullError, match=r"checkpoints"):
        run_study(ledger, study_id, executor, RecordingWatcher())
    assert ledger.studies.get_by_name_or_id("small").state is StudyState.INTERRUPTED
    assert ledger.studies.get_by_name_or_id("small").trials == {TrialState.WAITING: 2}
    assert list(environment.checkpoints.path.iterdir()) == []
    assert run_study(ledger, study_id, LocalExecutor(environment, 2), RecordingWatcher()) is StudyState.COMPLETE
