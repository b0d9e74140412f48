"""Runs that are trained as one program equal runs that are trained alone, in float64 to 1e-12."""

from __future__ import annotations

import pytest

from bln_search.specs import ArmSpec
from bln_search.training.loop import EpochToTrain
from bln_search.training.stacked.network import is_stackable
from bln_search.training.stacked.training import StackedTraining
from bln_search.training.training_state import collect_training_state, restore_training_state
from tests.support.tiers import latin, thinned
from tests.training.stacked.builders import (
    DIFFERENCES,
    METHODS,
    MODELS,
    assert_equal_runs,
    make_run,
    train_alone,
    train_together,
)


def compare(images, arm, options, **common):
    """Train runs alone and the same runs together, and compare them."""

    def make_runs():
        return [make_run(images, arm, seed, **{**common, **option}) for seed, option in enumerate(options)]

    alone, together = make_runs(), make_runs()
    for run in alone:
        train_alone(run)
    train_together(together)
    for expected, actual in zip(alone, together, strict=True):
        assert_equal_runs(expected, actual)
        assert actual.num_fused_epochs == 3


@pytest.mark.parametrize(("method", "model"), thinned(latin(METHODS, tuple(MODELS)), 2))
def test_runs_trained_together_equal_runs_trained_alone(images, model, method):
    """With different seeds, first weights, learning rates, weight decays, ε and schedules."""
    compare(images, ArmSpec(method=method), DIFFERENCES, model=model)


@pytest.mark.parametrize(
    "arm",
    thinned(
        [
            ArmSpec(method="mbn", lambda_=0.5, double_forward=True),
            ArmSpec(method="mbn", lambda_=0.5, between_variance=False, memory=3),
            ArmSpec(method="bn", unbiased=True),
            ArmSpec(method="bln", semantics="reference"),
            ArmSpec(method="bln", axes="layer"),
            ArmSpec(method="brn", momentum=0.9),
        ],
        2,
    ),
    ids=str,
)
def test_options_of_an_arm_apply_to_each_run(images, arm):
    compare(images, arm, DIFFERENCES, model="lenet")


@pytest.mark.parametrize("order", ["fixed", "shuffled"])
def test_momentum_and_order_of_each_run(images, order):
    options = ({"momentum": 0.9}, {}, {"momentum": 0.5, "weight_decay": 0.01})
    compare(images, ArmSpec(method="bln"), options, optimizer="sgd", learning_rate=0.05, order=order)


@pytest.mark.parametrize(
    "arms",
    [
        [ArmSpec(method="mbn", lambda_=value) for value in (0, 0.3, {0: 0.1, 0.5: 0.9})],
        [ArmSpec(method="brn", r_max=value, d_max=1) for value in (1, 2, {0: 1, 0.3: 3})],
    ],
    ids=["lambda", "r_max"],
)
def test_each_run_has_its_own_schedule(images, arms):
    alone, together = ([make_run(images, arm, seed) for seed, arm in enumerate(arms)] for _ in range(2))
    for run in alone:
        train_alone(run)
    train_together(together)
    for expected, actual in zip(alone, together, strict=True):
        assert_equal_runs(expected, actual)


def test_an_activation_without_parameters_may_be_used_twice(images):
    runs = [[make_run(images, ArmSpec(method="bln"), seed) for seed in range(2)] for _ in range(2)]
    for run in (run for of_kind in runs for run in of_kind):
        layers = run.network.layers
        layers[5] = layers[2]
    alone, together = runs
    for run in alone:
        train_alone(run)
    train_together(together)
    for expected, actual in zip(alone, together, strict=True):
        assert is_stackable(expected.network)
        assert_equal_runs(expected, actual)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_run_may_come_later_and_leave_earlier(images, optimizer):
    """Runs in different epochs, in changing company and alone, equal runs that are trained alone."""
    arm = ArmSpec(method="bln")
    options = {"optimizer": optimizer, "momentum": 0.9 if optimizer == "sgd" else None}
    alone, together = ([make_run(images, arm, seed, **options) for seed in range(3)] for _ in range(2))
    for run in alone:
        train_alone(run)
    trainings = [run.train_epochs_announcing_each() for run in together]
    for company in ((0, 1), (0,), (0, 2), (2, 1), (2,), (1,)):
        for number in company:
            assert isinstance(next(trainings[number]), EpochToTrain)
        if len(company) > 1:
            StackedTraining([together[number] for number in company]).train_epoch()
        for number in company:
            next(trainings[number])
    assert [next(training, None) for training in trainings] == [None] * 3
    for expected, actual in zip(alone, together, strict=True):
        assert_equal_runs(expected, actual)


def test_a_diverged_run_does_not_change_the_others(images):
    arm = ArmSpec(method="none")
    alone = make_run(images, arm, 0)
    train_alone(alone)
    together = [make_run(images, arm, 0), make_run(images, arm, 1, optimizer="adam", learning_rate=1e308)]
    trainings = [run.train_epochs_announcing_each() for run in together]
    stacked = StackedTraining(together)
    for _ in range(3):
        assert isinstance(next(trainings[0]), EpochToTrain)
        if together[1].result.diverged is None:
            next(trainings[1])
            stacked.train_epoch()
            assert next(trainings[1], None) is None
        next(trainings[0])
    next(trainings[0], None)
    assert together[1].result.diverged is not None
    assert_equal_runs(alone, together[0])


def test_a_run_saved_after_an_epoch_with_others_goes_on_alone(images):
    arm = ArmSpec(method="brn")
    alone, *together = (make_run(images, arm, seed) for seed in (0, 0, 1))
    train_alone(alone)
    trainings = [run.train_epochs_announcing_each() for run in together]
    for training in trainings:
        next(training)
    StackedTraining(together).train_epoch()
    next(trainings[0])
    state = collect_training_state(together[0])
    resumed = make_run(images, arm, 0)
    restore_training_state(resumed, state)
    assert resumed.num_fused_epochs == 1
    train_alone(resumed)
    assert_equal_runs(alone, resumed)


def test_an_epoch_that_failed_can_be_trained_alone(images, monkeypatch):
    """What the steps before the error changed is restored."""
    arm = ArmSpec(method="mbn", lambda_=0.5)
    alone, together = ([make_run(images, arm, seed) for seed in range(2)] for _ in range(2))
    for run in alone:
        train_alone(run)
    trainings = [run.train_epochs_announcing_each() for run in together]
    for training in trainings:
        next(training)
    stacked = StackedTraining(together)
    stacked.train_epoch()
    for training in trainings:
        assert not isinstance(next(training), EpochToTrain)
        assert isinstance(next(training), EpochToTrain)
    restore = stacked.snapshot_runs_for_undo()
    read_mini_batches, steps = StackedTraining._read_mini_batches, []

    def fail_in_second_step(self):
        steps.append(self)
        if len(steps) == 2:
            raise MemoryError
        return read_mini_batches(self)

    monkeypatch.setattr(StackedTraining, "_read_mini_batches", fail_in_second_step)
    with pytest.raises(MemoryError):
        stacked.train_epoch()
    restore()
    for training in trainings:
        list(training)
    for expected, actual in zip(alone, together, strict=True):
        assert_equal_runs(expected, actual)
