"""The running mean weights the mini-batches of training by q^age, divided by the sum of the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.enums import Split
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from bln_search.training.epoch_progress import RecencyWeightedMean
from tests.training.builders import build_network


def weighted_mean(values, steps_per_epoch):
    weights = 0.1 ** (np.arange(len(values))[::-1] / steps_per_epoch)
    return float(np.sum(weights * values) / np.sum(weights))


@pytest.mark.parametrize("steps_per_epoch", [1, 3, 40])
def test_running_mean_equals_the_weighted_sum(steps_per_epoch):
    values = np.random.default_rng(0).normal(size=100)
    mean = RecencyWeightedMean(steps_per_epoch)
    for step, value in enumerate(values, start=1):
        mean.add(torch.tensor(value))
        assert mean.mean == pytest.approx(weighted_mean(values[:step], steps_per_epoch), rel=1e-12)


def test_training_measures_the_running_mean_of_its_mini_batch_losses(data):
    spec = TrainingSpec(epochs=3, batch_size=25)
    run = TrainingRun(build_network(), data, spec, ArmSpec(method="bln"), seed=0, measures_running_loss=True)
    losses, step = [], run.take_optimizer_step

    def recorded_step(x, y):
        logits, loss = step(x, y)
        losses.append(loss.item())
        return logits, loss

    run.take_optimizer_step = recorded_step
    records = list(run.train_epochs())
    assert len(losses) == 3 * (len(data.splits[Split.TRAIN][0]) // 25)
    assert run.running_loss.mean == pytest.approx(weighted_mean(losses, run.steps), rel=1e-9)
    assert min(losses) < run.running_loss.mean < records[0].training_loss
    unmeasured = TrainingRun(build_network(), data, spec, ArmSpec(method="bln"), seed=0)
    assert [record.training_loss for record in unmeasured.train_epochs()] == [
        record.training_loss for record in records
    ]
