"""The trainable of Ray Tune, step by step, without a cluster."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.states import FailureClass
from bln_search.execution.executors.ray import trainable as trainable_module
from bln_search.execution.messages import PhaseProgress, TrialPhase, TrialTask

PROGRESS = PhaseProgress(TrialPhase.TRAINING, 1, 2)


def make_trainable(**config):
    trainable = object.__new__(trainable_module.SequentialTaskTrainable)
    trainable._set_task({"task": TrialTask(1, None), "environment": None, **config})
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
    make_trainable(task=TrialTask(1, None, alone=alone), gpus=gpus)
    assert set_fractions == fractions


def test_accelerator_error_is_raised_after_earlier_messages(trainable, monkeypatch):
    """Tune ends a process that raises, and reuses one that does not."""
    monkeypatch.setattr(
        trainable_module, "run_trial_task", failing_run_task([PROGRESS], torch.AcceleratorError("CUDA error"))
    )
    assert trainable.step() == {"messages": [PROGRESS], "done": False}
    with pytest.raises(torch.AcceleratorError):
        trainable.step()


def test_accelerator_error_without_messages_is_raised_at_once(trainable, monkeypatch):
    monkeypatch.setattr(trainable_module, "run_trial_task", failing_run_task([], torch.AcceleratorError("CUDA error")))
    with pytest.raises(torch.AcceleratorError):
        trainable.step()


def test_any_other_failure_is_a_message(trainable, monkeypatch):
    monkeypatch.setattr(trainable_module, "run_trial_task", failing_run_task([PROGRESS], TypeError("missing argument")))
    result = trainable.step()
    assert [type(message).__name__ for message in result["messages"]] == ["PhaseProgress", "TaskFailed"]
    assert result["messages"][1].failure is FailureClass.USER_ERROR
    assert result["done"]
