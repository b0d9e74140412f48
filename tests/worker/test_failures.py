"""What follows each class of failure, with a scripted executor."""

from __future__ import annotations

import pytest

from bln_search.core.errors import DataUnavailableOnMachineError
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import FailureClass, StudyState, TrialState
from bln_search.evaluation.chunking import MEMORY_LIMIT
from bln_search.execution.messages import TaskFailed, TrainingDiverged, TrainingDone
from bln_search.specs import parse_study
from bln_search.worker import run_study
from tests.support.watchers import RecordingWatcher
from tests.worker.scripted_executor import ScriptedExecutor
from tests.worker.small_study import SMALL_STUDY, small_study


def failures(ledger, study_id):
    return [event.data for event in ledger.events.list_events(study_id) if event.kind == "attempt_failed"]


FULL = TaskFailed(FailureClass.OUT_OF_MEMORY, "out of memory")
TRAINED = TrainingDone(CheckpointRecord("file", "0" * 64, 2, "FFFF", 0.5, {}))


def test_out_of_memory_in_evaluation_halves_the_memory_limit(ledger):
    study_id = ledger.studies.store_study_once(small_study())
    executor = ScriptedExecutor((TRAINED, FULL), TrainingDiverged("scripted"), FULL)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    first = executor.tasks[0].trial.key
    assert [task.memory_limit for task in executor.tasks if task.trial.key == first] == [
        None,
        MEMORY_LIMIT // 2,
        MEMORY_LIMIT // 4,
    ]
    assert [task.memory_limit for task in executor.tasks if task.trial.key != first] == [None]


class SideBySide:
    """Two trials at a time; those of the first seed run out of memory as often as it is told."""

    def __init__(self, times):
        self.times = times
        self.begun = []

    def num_parallel_trials(self, _trials):
        return 2

    def run(self, next_task, report, pulse, trials=1):
        live = []
        while True:
            while len(live) < 2 and (task := next_task()) is not None:
                live.append(task)
                self.begun.append((task.trial.seed, task.alone, len(live), task.memory_limit))
            if not live:
                return
            task = live.pop(0)
            full = task.trial.seed == 0 and self.times > 0
            self.times -= full
            report(task, FULL if full else TrainingDiverged("scripted"))
            pulse([task.token for task in live])


def test_out_of_memory_in_training_is_retried_alone(ledger):
    study_id = ledger.studies.store_study_once(
        parse_study(SMALL_STUDY.replace("LR", "0.002").replace("[0, 1]", "[0, 1, 2, 3]"))
    )
    executor = SideBySide(1)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert [seed for seed, _, _, _ in executor.begun] == [0, 1, 2, 3, 0]
    assert executor.begun[-1] == (0, True, 1, None)  # and evaluates in as much memory as others
    assert not any(alone for _, alone, _, _ in executor.begun[:-1])


def test_out_of_memory_alone_fails_with_a_remedy(ledger):
    study_id = ledger.studies.store_study_once(small_study())
    executor = SideBySide(2)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.FAILED
    assert [seed for seed, _, _, _ in executor.begun] == [0, 1, 0]
    first, second = failures(ledger, study_id)
    assert (first["again"], second["again"]) == (True, False)
    assert "with no other trial of this run beside it: lower training.batch_size" in second["reason"]


def test_infrastructure_has_three_attempts_and_user_errors_one(ledger):
    study_id = ledger.studies.store_study_once(small_study())
    broken = TaskFailed(FailureClass.INFRASTRUCTURE, "cable")
    user_error = TaskFailed(FailureClass.USER_ERROR, "no norm")
    executor = ScriptedExecutor(broken, user_error, broken, broken)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.FAILED
    assert len(executor.tasks) == 4
    assert [(failure["failure"], failure["again"]) for failure in failures(ledger, study_id)] == [
        ("infrastructure", True),
        ("user_error", False),
        ("infrastructure", True),
        ("infrastructure", False),
    ]
    assert ledger.studies.get_by_name_or_id("small").trials == {TrialState.FAILED: 2}


def test_lost_process_costs_no_attempt(ledger):
    study_id = ledger.studies.store_study_once(small_study())
    process_loss = TaskFailed(FailureClass.INFRASTRUCTURE, "EOFError", process_lost=True)
    executor = ScriptedExecutor(*[process_loss] * 7)
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert [failure["again"] for failure in failures(ledger, study_id)] == [True] * 7


def test_missing_data_fails_no_trial(ledger):
    """It fails at once, and so would be handed every trial there is."""
    study_id = ledger.studies.store_study_once(small_study())
    reason = "on node7: train.bin is not in /data"
    absent = TaskFailed(FailureClass.INFRASTRUCTURE, reason, DataUnavailableOnMachineError)
    with pytest.raises(DataUnavailableOnMachineError, match=r"on node7: train\.bin is not in /data"):
        run_study(ledger, study_id, ScriptedExecutor(TrainingDiverged("scripted"), absent), RecordingWatcher())
    assert ledger.studies.get(study_id).state is StudyState.INTERRUPTED
    assert ledger.studies.get(study_id).trials == {TrialState.DIVERGED: 1, TrialState.WAITING: 1}
    assert failures(ledger, study_id) == []
    assert run_study(ledger, study_id, ScriptedExecutor(), RecordingWatcher()) is StudyState.COMPLETE


def test_divergence_is_a_result_and_not_retried(ledger):
    study_id = ledger.studies.store_study_once(small_study())
    executor = ScriptedExecutor()
    assert run_study(ledger, study_id, executor, RecordingWatcher()) is StudyState.COMPLETE
    assert len(executor.tasks) == 2
    assert failures(ledger, study_id) == []
