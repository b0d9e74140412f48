"""The trainable that Tune is given, a step at a time, without a cluster."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.states import FailureClass
from bln_search.execution.executors.ray import tune_parts
from bln_search.execution.messages import Phase, Progressed, Task

PROGRESS = Progressed(Phase.TRAINING, 1, 2)


@pytest.fixture
def trainable():
    trainable = object.__new__(tune_parts.TaskTrainable)
    trainable._set_task({"task": Task(1, None), "environment": None})
    return trainable


def steps(messages, error):
    def run_task(_task, _environment, send):
        for message in messages:
            send(message)
        raise error
        yield

    return run_task


@pytest.mark.parametrize(
    ("gpus", "alone", "fractions"), [(0, False, []), (1, False, []), (0.25, False, [0.25]), (0.25, True, [1.0])]
)
def test_a_part_of_a_gpu_is_a_part_of_its_memory_unless_the_trial_runs_alone(monkeypatch, gpus, alone, fractions):
    given = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", given.append)
    trainable = object.__new__(tune_parts.TaskTrainable)
    trainable._set_task({"task": Task(1, None, alone=alone), "environment": None, "gpus": gpus})
    assert given == fractions


def test_an_accelerator_error_is_raised_after_earlier_messages(trainable, monkeypatch):
    """Tune ends a process that raises, and uses one again that does not."""
    monkeypatch.setattr(tune_parts, "run_task", steps([PROGRESS], torch.AcceleratorError("CUDA error")))
    assert trainable.step() == {"messages": [PROGRESS], "done": False}
    with pytest.raises(torch.AcceleratorError):
        trainable.step()


def test_an_accelerator_error_without_messages_is_raised_at_once(trainable, monkeypatch):
    monkeypatch.setattr(tune_parts, "run_task", steps([], torch.AcceleratorError("CUDA error")))
    with pytest.raises(torch.AcceleratorError):
        trainable.step()


def test_any_other_failure_is_a_message(trainable, monkeypatch):
    monkeypatch.setattr(tune_parts, "run_task", steps([PROGRESS], TypeError("missing argument")))
    result = trainable.step()
    assert [type(one).__name__ for one in result["messages"]] == ["Progressed", "TaskFailed"]
    assert result["messages"][1].failure is FailureClass.USER_ERROR
    assert result["done"]
