"""The trainable of Ray Tune, step by step, without a cluster."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import FailureClass
from bln_search.execution.environment import ExecutionEnvironment
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

PROGRESS = PhaseProgress(TrialPhase.TRAINING, 1, 2)


def make_trainable(**config):
    trainable = object.__new__(trainable_module.TaskTrainable)
    trainable._set_tasks({"tasks": (TrialTask(1, None),), "environment": None, "are_fused": False, **config})
    return trainable


@pytest.fixture
def trainable():
    return make_trainable()


def failing_run_task(messages, error):
    """A run_task that sends messages and raises an error."""

    def run_task(_task, _environment, send):
        for message in messages:
            send(message)
        raise error
        yield

    return run_task


@pytest.mark.parametrize(
    ("gpus", "alone", "fractions"), [(0, False, []), (1, False, []), (0.25, False, [0.25]), (0.25, True, [1.0])]
)
def test_gpu_fraction_limits_memory_unless_trial_runs_alone(monkeypatch, gpus, alone, fractions):
    set_fractions = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", set_fractions.append)
    make_trainable(tasks=(TrialTask(1, None, alone=alone),), gpus=gpus)
    assert set_fractions == fractions


def test_accelerator_error_is_raised_after_earlier_messages(trainable, monkeypatch):
    """Tune ends a process that raises, and reuses one that does not."""
    monkeypatch.setattr(
        trainable_module,
        "iter_epochs_of_trial_task",
        failing_run_task([PROGRESS], torch.AcceleratorError("CUDA error")),
    )
    assert trainable.step() == {"messages": [(1, PROGRESS)], "seconds": [], "done": False}
    with pytest.raises(torch.AcceleratorError):
        trainable.step()


def test_any_other_failure_is_a_message(trainable, monkeypatch):
    monkeypatch.setattr(
        trainable_module, "iter_epochs_of_trial_task", failing_run_task([PROGRESS], TypeError("missing argument"))
    )
    result = trainable.step()
    assert [type(message).__name__ for _, message in result["messages"]] == ["PhaseProgress", "TaskFailed"]
    assert result["messages"][1][1].failure is FailureClass.USER_ERROR
    assert result["done"]


class FakeGroup:
    """In place of a group: each task ends in one epoch, with an outcome of its own."""

    def __init__(self, _environment, send):
        self.send, self.tasks = send, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __len__(self):
        return len(self.tasks)

    def add(self, task):
        self.tasks.append(task)

    def advance_trials_to_next_epoch(self):
        pass

    def train_fusible_pending_epochs(self):
        for task in self.tasks:
            self.send(task, OUTCOMES[task.token])
        self.tasks = []


UNUSABLE = TaskFailed(FailureClass.INFRASTRUCTURE, "CUDA error", process_unusable=True)
OUTCOMES = {1: EvaluationDone(()), 2: TrainingDiverged("x"), 3: UNUSABLE}


@pytest.fixture
def make_group_trainable(monkeypatch, tmp_path):
    monkeypatch.setattr(trainable_module, "TrialGroup", FakeGroup)
    environment = ExecutionEnvironment(tmp_path, tmp_path, FolderStore(tmp_path))
    return lambda *tokens: make_trainable(
        tasks=tuple(TrialTask(token, None) for token in tokens), environment=environment, are_fused=True
    )


def test_an_accelerator_error_of_one_of_several_tasks_ends_the_process(make_group_trainable):
    """What the others reported comes first; their process then ends, and with it those that have not ended."""
    trainable = make_group_trainable(1, 3)
    assert trainable.step() == {"messages": [(1, OUTCOMES[1])], "seconds": [], "done": False}
    with pytest.raises(RuntimeError, match="CUDA error"):
        trainable.step()


DONE, RESUMED, FAILED = EvaluationDone(()), TrainingResumed(()), "an error"


@pytest.fixture
def make_sequence(monkeypatch):
    """A trainable whose tasks send what is given, with an epoch before each message."""

    def make(*messages_of_tasks, interval=60.0):
        def run_task(task, _environment, send):
            for message in messages_of_tasks[task.token]:
                yield "epoch"
                if message is FAILED:
                    raise TypeError(FAILED)
                if isinstance(message, Exception):
                    raise message
                send(message)

        monkeypatch.setattr(trainable_module, "iter_epochs_of_trial_task", run_task)
        monkeypatch.setattr(trainable_module, "_RESULT_INTERVAL", interval)
        return make_trainable(tasks=tuple(TrialTask(token, None) for token in range(len(messages_of_tasks))))

    return make


def test_tasks_of_a_sequence_run_one_after_another_in_one_step(make_sequence):
    result = make_sequence([PROGRESS, DONE], [PROGRESS, DONE]).step()
    assert result["messages"] == [(0, PROGRESS), (0, DONE), (1, PROGRESS), (1, DONE)]
    assert [token for token, _ in result["seconds"]] == [0, 1]
    assert result["done"]


def test_a_failed_task_of_a_sequence_does_not_end_the_next(make_sequence):
    result = make_sequence([FAILED], [DONE]).step()
    assert [(token, type(message)) for token, message in result["messages"]] == [(0, TaskFailed), (1, EvaluationDone)]
    assert [token for token, _ in result["seconds"]] == [1]
    assert result["done"]


def test_a_step_ends_between_two_tasks_after_the_interval(make_sequence):
    trainable = make_sequence([DONE], [DONE], interval=0.0)
    results = [trainable.step() for _ in range(6)]
    ends = [(result["messages"], result["done"]) for result in results if result["messages"]]
    assert ends == [([(0, DONE)], False), ([(1, DONE)], True)]


@pytest.mark.parametrize("messages", [[RESUMED, DONE], [TrainingDiverged("x")], [PROGRESS, FAILED]])
def test_a_task_that_trained_only_in_part_has_no_duration(make_sequence, messages):
    assert make_sequence(messages).step()["seconds"] == []


def test_an_accelerator_error_ends_the_sequence_after_earlier_results(make_sequence):
    trainable = make_sequence([DONE], [torch.AcceleratorError("CUDA error")], [DONE])
    result = trainable.step()
    assert (result["messages"], result["done"]) == ([(0, DONE)], False)
    with pytest.raises(torch.AcceleratorError):
        trainable.step()
