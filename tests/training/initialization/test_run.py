"""The runs of all arms of a seed start with one function, from their own first mini-batch."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.enums import Split
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.specs import ArmSpec, TrainingSpec
from bln_search.training import TrainingRun
from bln_search.training.initialization.run import get_first_training_batch_inputs

AUGMENTATION = {"crop": 1, "flip": True}


def make_network(method):
    options = {"widths": [12, 8], "placement": "before", "output_norm": method != "none"}
    return build_model("mlp", (1, 8, 8), 10, partial(make_norm, method, batch_size=25), seed=3, options=options)


def first_step(data, method, **options):
    """Inputs, logits and targets of the first training step."""
    spec = TrainingSpec(**{"epochs": 1, "batch_size": 25, **options})
    network, seen = make_network(method), {}
    run = TrainingRun(network, data, spec, ArmSpec(method=method), seed=3)
    step = run.take_optimizer_step

    def record(x, y):
        logits, loss = step(x, y)
        seen.setdefault("first", (x, logits, y))
        return logits, loss

    run.take_optimizer_step = record
    next(run.train_epochs())
    return seen["first"]


@pytest.mark.parametrize("order", ["shuffled", "fixed"])
@pytest.mark.parametrize("augmentation", [None, AUGMENTATION])
def test_the_mini_batch_is_that_of_the_first_step(data, order, augmentation):
    spec = TrainingSpec(epochs=1, batch_size=25, order=order, augmentation=augmentation)
    inputs, _, _ = first_step(data, "bn", order=order, augmentation=augmentation)
    assert torch.equal(get_first_training_batch_inputs(data, spec, seed=3), inputs)


@pytest.mark.parametrize("statistics", ["none", "bn", "ap2"])
def test_the_logits_and_the_loss_of_the_first_step_are_equal(data, statistics):
    losses = []
    for method in ("none", "bn", "brn", "mbn", "wn", "normprop", "ap2"):
        _, logits, targets = first_step(data, method, initialization={"statistics": statistics})
        losses.append((logits, F.cross_entropy(logits, targets).item()))
    for logits, loss in losses[1:]:
        torch.testing.assert_close(logits, losses[0][0], rtol=1e-4, atol=1e-4)
        assert loss == pytest.approx(losses[0][1], rel=1e-5)
    if statistics == "bn":
        np.testing.assert_allclose(losses[0][0].mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(losses[0][0].std(0, correction=0), 1, rtol=1e-4)


def test_without_the_key_the_weights_stay_as_they_are_drawn(data):
    network, drawn = make_network("bn"), make_network("bn").state_dict()
    TrainingRun(network, data, TrainingSpec(epochs=1), ArmSpec(method="bn"), seed=3)
    assert all(value is None or torch.equal(value, drawn[name]) for name, value in network.state_dict().items())


def test_the_statistics_of_the_weights_start_from_moments_of_the_inputs(data):
    images, targets = data.splits[Split.TRAIN]
    shifted = dataclasses.replace(data, splits={**data.splits, Split.TRAIN: (3 * images + 5, targets)})
    outputs = []
    for prepared in (data, shifted):
        network = make_network("none")
        spec = TrainingSpec(epochs=1, batch_size=25, initialization={"statistics": "ap2"})
        TrainingRun(network, prepared, spec, ArmSpec(method="none"), seed=3)
        with torch.no_grad():
            outputs.append(network(prepared.splits[Split.TRAIN][0][:50]))
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-3, atol=1e-3)
