"""A study whose trials are trained as one program in each process, with the real driver, ledger and processes."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

from bln_search.core.records import FUSED_EPOCHS
from bln_search.core.states import FailureClass, StudyState, TrialState
from bln_search.execution.executors.local import LocalExecutor
from bln_search.execution.messages import EpochDone, EvaluationDone, TaskFailed
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher

EPOCHS = 6
pytestmark = pytest.mark.slow


def study(name, **changes):
    return parse_study(
        json.dumps(
            {
                "name": name,
                "data": {"name": "digits", "fraction": 0.2, "validation": 200},
                "model": {"name": "mlp", "widths": [8]},
                "arms": [{"method": "bln"}, {"method": "brn"}],
                "training": {"epochs": EPOCHS},
                "seeds": [0, 1, 2],
                **changes,
            }
        )
    )


def losses(ledger, study_id):
    return {
        (record.seed, record.arm, str(evaluation.key)): evaluation.loss
        for record in ledger.results.list_clean_evaluations(study_id)
        for evaluation in [record.evaluation]
    }


def fused_epochs(ledger, study_id):
    return [
        trial.checkpoint.provenance.get(FUSED_EPOCHS, 0)
        for trial in ledger.trials.list_trials(study_id)
        if trial.checkpoint is not None
    ]


def test_the_table_is_that_of_trials_that_run_one_by_one(ledger, environment):
    first, second = (ledger.studies.store_study_once(study(name)) for name in ("alone", "together"))
    assert run_study(ledger, first, LocalExecutor(environment, 1), RecordingWatcher()) is StudyState.COMPLETE
    executor = LocalExecutor(environment, 1, trials_per_process=6)
    assert run_study(ledger, second, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert fused_epochs(ledger, first) == [0] * 6
    assert fused_epochs(ledger, second) == [EPOCHS] * 6
    alone, together = losses(ledger, first), losses(ledger, second)
    assert together == pytest.approx(alone, rel=1e-3)


def test_trials_of_a_killed_process_are_retried_one_by_one(ledger, environment):
    long_enough_to_be_killed = {"epochs": 300}  # short epochs are reported together, so many pass before the kill
    killed_study = study("killed", arms=[{"method": "bln"}], training=long_enough_to_be_killed)
    study_id = ledger.studies.store_study_once(killed_study)
    killed = []

    def kill_once(message):
        if isinstance(message, EpochDone) and message.record.epoch == 2 and not killed:
            (worker,) = (
                child
                for child in psutil.Process().children(recursive=True)
                if child.ppid() != os.getpid() and "forkserver" in " ".join(child.cmdline())
            )
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    executor, watcher = LocalExecutor(environment, 1, trials_per_process=3), RecordingWatcher(kill_once)
    assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    assert killed
    assert ledger.studies.get(study_id).trials == {TrialState.FINISHED: 3}
    assert fused_epochs(ledger, study_id) == [0, 0, 0]
    failures = [message for _, message in watcher.messages if isinstance(message, TaskFailed)]
    assert [failure.failure for failure in failures] == [FailureClass.INFRASTRUCTURE] * 3


def test_pruned_trials_leave_the_program(ledger, environment):
    pruned = study(
        "pruned",
        arms=[{"method": "bln"}],
        seeds=[0],
        space={"training.learning_rate": {"kind": "float", "low": 1e-6, "high": 0.01, "log": True}},
        search={"sampler": "random", "pruner": "asha", "trials": 8},
    )
    study_id = ledger.studies.store_study_once(pruned)
    executor = LocalExecutor(environment, 1, trials_per_process=4)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    states = ledger.studies.get(study_id).trials
    assert states[TrialState.PRUNED] >= 1
    assert sum(states.values()) == 8
    assert max(fused_epochs(ledger, study_id)) > 0


def test_many_short_trials_do_not_block_driver_and_process(ledger, environment):
    """More trials end between two readings than a pipe holds messages and tasks."""
    many = study("many", arms=[{"method": "bn"}], seeds=list(range(130)), training={"epochs": 1})
    study_id = ledger.studies.store_study_once(many)
    executor = LocalExecutor(environment, 1, trials_per_process=64)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert ledger.studies.get(study_id).trials == {TrialState.FINISHED: 130}


def test_a_finished_study_runs_no_trial(ledger, environment):
    study_id = ledger.studies.store_study_once(study("finished", seeds=[0], training={"epochs": 1}))
    executor, watcher = LocalExecutor(environment, trials_per_process=2), RecordingWatcher()
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    executor.run(lambda: None, None, lambda _: None, trials=0)
    assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    assert watcher.messages == []


def test_trials_that_fit_with_no_other_are_taken_one_by_one(ledger, environment):
    """A process with room for 64 begins the next after the end of the one before, whose result a sampler knows."""
    study_id = ledger.studies.store_study_once(study("alone", training={"epochs": 2, "fused_norms": True}))
    watcher = RecordingWatcher()
    executor = LocalExecutor(environment, 1, trials_per_process=64)
    assert run_study(ledger, study_id, executor, watcher) is StudyState.COMPLETE
    ends = [message for _, message in watcher.messages if isinstance(message, EpochDone | EvaluationDone)]
    assert [type(message) for message in ends] == [EpochDone, EpochDone, EvaluationDone] * 6
    started = [event for event in ledger.events.list_events(study_id) if event.kind == "attempt_started"]
    ended = [event for event in ledger.events.list_events(study_id) if event.kind == "trial_finished"]
    assert all(second.number > first.number for first, second in zip(ended, started[1:], strict=False))


def find_largest_number_running(ledger, study_id):
    running = largest = 0
    for event in ledger.events.list_events(study_id):
        running += {"attempt_started": 1, "trial_finished": -1}.get(event.kind, 0)
        largest = max(largest, running)
    return largest


@pytest.mark.parametrize(
    ("sampler", "options", "expected"),
    [("tpe", {}, 8), ("tpe", {"informing_trials_per_process": 12}, 12), ("random", {}, 12)],
)
def test_few_trials_that_inform_a_sampler_run_at_the_same_time(ledger, environment, sampler, options, expected):
    """Of twelve points, in a process with room for 64 trials."""
    spec = study(
        "sampled",
        arms=[{"method": "bn"}],
        seeds=[0],
        training={"epochs": 2},
        space={"training.learning_rate": {"kind": "float", "low": 1e-3, "high": 1e-2, "log": True}},
        search={"sampler": sampler, "trials": 12, "startup": 2},
    )
    study_id = ledger.studies.store_study_once(spec)
    executor = LocalExecutor(environment, 1, trials_per_process=64, **options)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert find_largest_number_running(ledger, study_id) == expected
