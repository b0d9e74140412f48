"""The trainable of Ray Tune, step by step, without a cluster."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.executors import trial_group
from bln_search.execution.executors.ray import trainable as trainable_module
from bln_search.execution.messages import (
    EvaluationDone,
    PhaseProgress,
    TaskFailed,
    TrainingDiverged,
    TrainingResumed,
    TrialPhase,
    TrialTask,
)
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.training.loop import EpochToTrain

PROGRESS = PhaseProgress(TrialPhase.TRAINING, 1, 2)
DONE, RESUMED, FAILED = EvaluationDone(()), TrainingResumed(()), "an error"
STUDY = """
name: x
data: {name: digits}
model: {name: mlp}
arms: [{method: bn}]
seeds: [0]
"""


@pytest.fixture
def make_trainable(monkeypatch, tmp_path):
    """A trainable whose tasks send what is given, with an epoch before each message."""
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path))
    (trial,) = list_planned_trial_specs(parse_study(STUDY))
    made = []

    def make(*messages_of_tasks, interval=60.0, prunable=False, alone=False, are_fused=False, gpus=0):
        def run_task(task, _environment, send):
            for message in messages_of_tasks[task.token]:
                yield EpochToTrain(None)
                if message is FAILED:
                    raise TypeError(FAILED)
                if isinstance(message, Exception):
                    raise message
                send(message)
                yield EpochRecord(1, 1.0, 0.5, 1.0, 0.5, 0.1)

        monkeypatch.setattr(trial_group, "run_trial_task_announcing_epochs", run_task)
        monkeypatch.setattr(trainable_module, "_RESULT_INTERVAL", interval)
        tokens = range(max(1, len(messages_of_tasks)))
        tasks = tuple(TrialTask(token, trial, prunable=prunable, alone=alone) for token in tokens)
        trainable = object.__new__(trainable_module.TaskTrainable)
        trainable._set_tasks({"tasks": tasks, "environment": environment, "are_fused": are_fused, "gpus": gpus})
        made.append(trainable)
        return trainable

    yield make
    for trainable in made:
        if trainable.steps is not None:
            trainable.steps.close()


@pytest.mark.parametrize(
    ("gpus", "alone", "fractions"), [(0, False, []), (1, False, []), (0.25, False, [0.25]), (0.25, True, [1.0])]
)
def test_gpu_fraction_limits_memory_unless_trial_runs_alone(make_trainable, monkeypatch, gpus, alone, fractions):
    set_fractions = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", set_fractions.append)
    make_trainable(gpus=gpus, alone=alone)
    assert set_fractions == fractions


@pytest.mark.parametrize("are_fused", [False, True])
def test_accelerator_error_is_raised_after_earlier_messages(make_trainable, are_fused):
    """Tune ends a process that raises, and reuses one that does not; what other tasks reported comes first."""
    trainable = make_trainable([DONE], [torch.AcceleratorError("CUDA error")], [PROGRESS, DONE], are_fused=are_fused)
    result = trainable.step()
    assert (0, DONE) in result["messages"]
    assert not result["done"]
    with pytest.raises(RuntimeError, match="CUDA error"):
        trainable.step()


def test_tasks_of_a_sequence_run_one_after_another_in_one_step(make_trainable):
    result = make_trainable([PROGRESS, DONE], [PROGRESS, DONE]).step()
    assert result["messages"] == [(0, PROGRESS), (0, DONE), (1, PROGRESS), (1, DONE)]
    assert [token for token, _ in result["seconds"]] == [0, 1]
    assert result["done"]


def test_a_failed_task_of_a_sequence_does_not_end_the_next(make_trainable):
    result = make_trainable([FAILED], [DONE]).step()
    assert [(token, type(message)) for token, message in result["messages"]] == [(0, TaskFailed), (1, EvaluationDone)]
    assert result["messages"][0][1].failure is FailureClass.USER_ERROR
    assert [token for token, _ in result["seconds"]] == [1]
    assert result["done"]


def test_a_step_ends_between_two_tasks_after_the_interval(make_trainable):
    trainable = make_trainable([DONE], [DONE], interval=0.0)
    results = [trainable.step() for _ in range(6)]
    ends = [(result["messages"], result["done"]) for result in results if result["messages"]]
    assert ends == [([(0, DONE)], False), ([(1, DONE)], True)]


def test_a_step_of_a_prunable_task_is_one_epoch(make_trainable):
    trainable = make_trainable([PROGRESS, PROGRESS, DONE], prunable=True)
    assert [trainable.step()["messages"] for _ in range(3)] == [[(0, PROGRESS)], [(0, PROGRESS)], [(0, DONE)]]


@pytest.mark.parametrize("messages", [[RESUMED, DONE], [TrainingDiverged("x")], [PROGRESS, FAILED]])
def test_a_task_that_trained_only_in_part_has_no_duration(make_trainable, messages):
    assert make_trainable(messages).step()["seconds"] == []
