"""A step of several runs depends on no number of Python that changes: its record gives what the step gives."""

from __future__ import annotations

import pytest
import torch

from bln_search.specs import ArmSpec
from bln_search.training.loop import EpochToTrain
from bln_search.training.stacked.repeated_step import CudaGraphStepRunner, StepRunner
from bln_search.training.stacked.training import StackedTraining
from tests.support.replay import RecordOperations
from tests.support.tiers import thinned
from tests.training.stacked.builders import DIFFERENCES, make_run

CPU = torch.device("cpu")
EPOCHS = 3


class ReplayedStep(CudaGraphStepRunner):
    """A step that is recorded without a GPU. Unlike there, the recording takes a step."""

    def repeat(self, take_step, steps):
        for _ in range(steps):
            if self._graph is not None:
                self._graph.replay()
            else:
                with RecordOperations() as self._graph:
                    take_step()


def train(images, method, *, is_recorded, **options):
    """The runs after their last epoch."""
    arm = ArmSpec(method=method)
    runs = [make_run(images, arm, seed, "lenet", **{**options, **changes}) for seed, changes in enumerate(DIFFERENCES)]
    trainings = [run.train_epochs_announcing_each() for run in runs]
    stacked = StackedTraining(runs)
    if is_recorded:
        stacked._step = ReplayedStep(CPU)
    for _ in range(EPOCHS):
        for training in trainings:
            assert isinstance(next(training), EpochToTrain)
        stacked.train_epoch()
        for training in trainings:
            next(training)
    return runs


@pytest.mark.parametrize("method", thinned(["none", "bn", "ln", "bln"], 2, start=1))
def test_a_recorded_step_gives_what_the_step_gives(images, method):
    """Bit for bit, in all epochs, with rates that change from step to step."""
    plain, recorded = (train(images, method, is_recorded=is_recorded) for is_recorded in (False, True))
    for expected, actual in zip(plain, recorded, strict=True):
        assert [(record.training_loss, record.validation_loss) for record in expected.result.epochs] == [
            (record.training_loss, record.validation_loss) for record in actual.result.epochs
        ]
        assert expected.running_loss.mean == actual.running_loss.mean
        for name, value in expected.network.state_dict().items():
            assert torch.equal(value, actual.network.state_dict()[name]), name


class CountedStep(CudaGraphStepRunner):
    """Counts what a GPU would do."""

    def __init__(self):
        super().__init__(CPU)
        self.counts = {"taken": 0, "recorded": 0, "replayed": 0}

    def _take_step_in_other_stream(self, _take_step):
        self.counts["taken"] += 1

    def _record(self, _take_step):
        self.counts["recorded"] += 1
        return self

    def replay(self):
        self.counts["replayed"] += 1


def test_a_step_is_recorded_once_after_three_steps():
    step = CountedStep()
    for steps, expected in ((2, (2, 0, 0)), (4, (3, 1, 3)), (5, (3, 1, 8))):
        step.repeat(lambda: None, steps)
        assert tuple(step.counts.values()) == expected


def test_steps_on_a_cpu_are_taken_by_python(images):
    runs = [make_run(images, ArmSpec(method="bn"), seed) for seed in range(2)]
    assert type(StackedTraining(runs, records_steps=True)._step) is StepRunner
