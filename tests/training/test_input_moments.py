"""AP2 starts from the mean and the variance of the augmented training inputs."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from bln_search.core.enums import Split
from bln_search.data.prepared import PreparedData
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.analytic.layer import NormalizationFromWeights
from bln_search.specs.sections.training import AugmentationSpec, TrainingSpec
from bln_search.training.input_moments import set_measured_input_moments

SHAPE = (1, 4, 5)


@pytest.fixture(name="data")
def _data():
    generator = torch.Generator().manual_seed(0)
    examples = 0.5 + torch.rand(12_001, *SHAPE, generator=generator) * torch.arange(5)
    return PreparedData({Split.TRAIN: (examples, torch.zeros(12_001, dtype=torch.int64))}, SHAPE, 3)


def first_layer(method, data, augmentation=None):
    options = {"widths": [5, 4], "placement": "before"}
    network = build_model("mlp", SHAPE, 3, partial(make_norm, method), seed=0, options=options)
    set_measured_input_moments(network, data, TrainingSpec(augmentation=augmentation))
    return next(module for module in network.modules() if isinstance(module, NormalizationFromWeights))


def test_moments_are_those_of_every_pixel(data):
    layer = first_layer("ap2", data)
    sample = data.splits[Split.TRAIN][0][::2].double()
    torch.testing.assert_close(layer.input_mean.double(), sample.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(layer.input_variance.double(), sample.var(0, correction=0), rtol=1e-5, atol=1e-6)


def test_noise_adds_its_variance_and_crops_mix_positions(data):
    plain, noisy = first_layer("ap2", data), first_layer("ap2", data, AugmentationSpec(noise=0.3))
    torch.testing.assert_close(noisy.input_variance - plain.input_variance, torch.full(SHAPE, 0.3), rtol=0, atol=0.1)
    cropped = first_layer("ap2", data, AugmentationSpec(flip=True))
    torch.testing.assert_close(cropped.input_mean, cropped.input_mean.flip(2), rtol=0, atol=0.1)


def test_other_rules_keep_their_assumption(data):
    layer = first_layer("normprop", data)
    assert not layer.input_mean.any()
    assert (layer.input_variance == 1).all()
