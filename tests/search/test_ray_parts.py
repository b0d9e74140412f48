"""The trainable that Tune is given, a step at a time, without a cluster."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.states import FailureClass
from bln_search.execution.executors.ray import tune_parts
from bln_search.execution.messages import Phase, Progressed, Task

SAID = Progressed(Phase.TRAINING, 1, 2)


@pytest.fixture
def trainable():
    made = object.__new__(tune_parts.TaskTrainable)
    made._take({"task": Task(1, None), "place": None})
    return made


def steps(messages, error):
    def run_task(_task, _place, say):
        for message in messages:
            say(message)
        raise error
        yield

    return run_task


@pytest.mark.parametrize(
    ("gpus", "alone", "fractions"), [(0, False, []), (1, False, []), (0.25, False, [0.25]), (0.25, True, [1.0])]
)
def test_a_part_of_a_gpu_is_a_part_of_its_memory_unless_the_trial_runs_alone(monkeypatch, gpus, alone, fractions):
    given = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", given.append)
    made = object.__new__(tune_parts.TaskTrainable)
    made._take({"task": Task(1, None, alone=alone), "place": None, "gpus": gpus})
    assert given == fractions


def test_what_spoils_a_process_is_raised_behind_all_it_said(trainable, monkeypatch):
    """Tune ends a process that raises, and uses one again that does not."""
    monkeypatch.setattr(tune_parts, "run_task", steps([SAID], torch.AcceleratorError("CUDA error")))
    assert trainable.step() == {"messages": [SAID], "done": False}
    with pytest.raises(torch.AcceleratorError):
        trainable.step()


def test_it_is_raised_at_once_where_nothing_was_said(trainable, monkeypatch):
    monkeypatch.setattr(tune_parts, "run_task", steps([], torch.AcceleratorError("CUDA error")))
    with pytest.raises(torch.AcceleratorError):
        trainable.step()


def test_any_other_failure_is_a_message_and_the_process_goes_on(trainable, monkeypatch):
    monkeypatch.setattr(tune_parts, "run_task", steps([SAID], TypeError("missing argument")))
    said = trainable.step()
    assert [type(one).__name__ for one in said["messages"]] == ["Progressed", "TaskFailed"]
    assert said["messages"][1].failure is FailureClass.USER_ERROR
    assert said["done"]
