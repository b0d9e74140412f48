"""Runs that train alone or together, and their comparison."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from bln_search.core.enums import PopulationEstimate
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.specs import TrainingSpec
from bln_search.training import TrainingRun
from bln_search.training.loop import EpochToTrain
from bln_search.training.stacked.training import StackedTraining

TOLERANCE = 1e-12
ESTIMATES = (PopulationEstimate.EPOCH, PopulationEstimate.MOVING)
METHODS = ("bn", "ln", "bln", "mbn", "brn", "none")
MODELS = {
    "mlp": {"widths": (12, 8)},
    "lenet": {},
    "resnet20": {"widths": (4, 6, 8)},
}
IMAGE_SIZE = 12
DIFFERENCES = (
    {"learning_rate": 0.01},
    {"learning_rate": 0.003, "weight_decay": 0.1},
    {"learning_rate": 0.02, "schedule": {"kind": "cosine"}, "epsilon": 1e-3},
)


def make_run(data, arm, seed, model="mlp", estimates=ESTIMATES, **training):
    spec = TrainingSpec(**{"epochs": 3, "batch_size": 10, **training})
    norm = partial(make_norm, arm.method, semantics=arm.semantics, batch_size=10, **arm.norm_layer_options)
    network = build_model(model, (2, IMAGE_SIZE, IMAGE_SIZE), 4, norm, seed=seed, options=MODELS[model])
    return TrainingRun(network.double(), data, spec, arm, seed=seed, estimates=estimates, measures_running_loss=True)


def train_alone(run):
    return list(run.train_epochs())


def train_together(runs):
    """Train all epochs of the runs together; return the records of each."""
    trainings = [run.train_epochs_announcing_each() for run in runs]
    records = [[] for _ in runs]
    stacked = None
    while True:
        steps = [next(training, None) for training in trainings]
        if not any(isinstance(step, EpochToTrain) for step in steps):
            return records
        stacked = stacked or StackedTraining(runs)
        stacked.train_epoch()
        for number, training in enumerate(trainings):
            records[number].append(next(training))


def assert_equal_runs(alone, together):
    assert alone.result.kept_epoch == together.result.kept_epoch
    for first, second in zip(alone.result.epochs, together.result.epochs, strict=True):
        assert second.training_loss == pytest.approx(first.training_loss, rel=1e-6)  # summed in single precision
        assert second.validation_loss == pytest.approx(first.validation_loss, rel=TOLERANCE)
        assert second.training_accuracy == first.training_accuracy
    assert_close_tensors(alone.result.weights, together.result.weights)
    for estimate, layers in alone.result.moments.items():
        for name, moments in layers.items():
            other = together.result.moments[estimate][name]
            assert (moments.batch_size, moments.values_per_batch) == (other.batch_size, other.values_per_batch)
            for kind in ("batch", "feature"):
                if getattr(moments, kind) is not None:
                    assert_close_tensors(vars(getattr(moments, kind)), vars(getattr(other, kind)))
    assert together.running_loss.mean == pytest.approx(alone.running_loss.mean, rel=TOLERANCE)
    assert torch.equal(alone.generator.get_state(), together.generator.get_state())


def assert_close_tensors(expected, actual):
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=TOLERANCE, atol=TOLERANCE, msg=name)
