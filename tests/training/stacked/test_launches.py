"""A step of several runs launches as many operations as a step of two, and none waits for the device."""

from __future__ import annotations

import pytest
import torch

from bench.support.launches import CountLaunches
from bln_search.data.synthetic import make_synthetic_prepared_data
from bln_search.execution.loaded_network import build_initialized_network
from bln_search.training import TrainingRun
from bln_search.training.stacked.training import StackedTraining
from tests.support.host_waits import refuse_waits
from tests.support.tiers import thinned
from tests.training.test_synchronization import make_trial


@pytest.fixture
def launches(monkeypatch):
    """The number of operations of each step; a step that waits for the device is an error."""
    take_step, counts = StackedTraining._take_step, []

    def observe(self):
        with CountLaunches() as counter, refuse_waits():
            take_step(self)
        counts.append(counter.launches.total())

    monkeypatch.setattr(StackedTraining, "_take_step", observe)
    return counts


def train_epoch_together(trial, num_runs):
    torch.manual_seed(0)
    data = make_synthetic_prepared_data(trial.data, 80)
    runs = [TrainingRun.of_trial(build_initialized_network(trial, data), data, trial) for _ in range(num_runs)]
    trainings = [run.train_epochs_announcing_each() for run in runs]
    for training in trainings:
        next(training)
    StackedTraining(runs).train_epoch()


@pytest.mark.parametrize("method", thinned(["none", "bn", "ln", "bln", "mbn", "brn"], 3))
def test_launches_do_not_depend_on_the_number_of_runs(launches, method):
    trial = make_trial(method, "")
    train_epoch_together(trial, 2)
    of_two = list(launches)
    launches.clear()
    train_epoch_together(trial, 5)
    assert launches == of_two


@pytest.mark.parametrize(("method", "expected"), [("bln", 337), ("mbn", 361)])
def test_a_step_of_many_runs_launches_little_more_than_a_step_of_one(launches, method, expected):
    """Alone LeNet has 310 operations with BLN and 302 with MBN; the optimizer is one of them, here it is several."""
    train_epoch_together(make_trial(method, ""), 3)
    assert launches[-1] == expected
