"""The all-convolutional network: its formula, its errors, and fused training."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models import build_model
from bln_search.norms import BLN, make_norm
from bln_search.specs.sections.arm import ArmSpec
from bln_search.training.stacked.network import is_stackable
from tests.training.conftest import data  # noqa: F401 - a fixture
from tests.training.stacked import builders
from tests.training.stacked.conftest import images  # noqa: F401 - a fixture
from tests.training.stacked.test_training import compare
from tests.training.test_synchronization import ObservedTraining, make_trial, train


def test_network_without_normalization_equals_the_plain_one():
    norm, sizes = partial(make_norm, "none"), {"widths": [5, 7]}
    network = build_model("allconv", (3, 12, 12), 10, norm, seed=3, options=sizes).double().eval()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 3, 12, 12, dtype=torch.float64, generator=generator)
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    biases = [parameter for parameter in network.parameters() if parameter.ndim == 1]
    for bias in biases:
        bias.data = torch.randn(bias.shape, dtype=torch.float64, generator=generator) / 10
    assert [tuple(weight.shape[:2]) for weight in weights] == [
        *((5, 3), (5, 5), (5, 5), (7, 5)),
        *((7, 7), (7, 7), (7, 7), (7, 7), (10, 7)),
    ]
    value = x
    for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        value = F.conv2d(value, weight, bias, stride=2 if index in (2, 5) else 1, padding=weight.shape[-1] // 2)
        value = value if index == 8 else value.clamp_min(0) + 0.03 * value
    torch.testing.assert_close(network(x), value.mean((2, 3)), rtol=1e-12, atol=1e-12)


def test_any_image_gives_one_logit_for_each_class():
    network = build_model("allconv", (1, 13, 9), 5, BLN, seed=0)
    assert network(torch.randn(4, 1, 13, 9)).shape == (4, 5)
    assert is_stackable(network)


@pytest.mark.parametrize(
    ("shape", "widths", "message"), [((64,), [5, 7], "at least 4×4 pixels"), ((1, 8, 8), [5], "two widths")]
)
def test_an_impossible_network_is_an_error(shape, widths, message):
    with pytest.raises(ModelError, match=rf"^allconv .*{message}"):
        build_model("allconv", shape, 3, BLN, seed=0, options={"widths": widths})


@pytest.mark.parametrize("method", ["bln", "mbn"])
def test_networks_trained_together_equal_networks_trained_alone(images, method, monkeypatch):  # noqa: F811
    monkeypatch.setitem(builders.MODELS, "allconv", {"widths": (6, 8)})
    compare(images, ArmSpec(method=method), builders.DIFFERENCES, model="allconv")


@pytest.mark.parametrize("method", ["wn", "normprop", "ap2"])
def test_no_training_step_with_statistics_from_weights_waits_for_the_device(method):
    assert train(make_trial(method, "", "allconv"), ObservedTraining, examples=25).launches
