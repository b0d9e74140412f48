"""Own networks start with one function, whatever normalizes them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import ModelError


class Residual(nn.Module):
    """A convolution, a block with a shortcut, a classifier, with BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))

    def forward(self, x):
        x = self.stem(x)
        return self.head(torch.relu(x + self.block(x)))


@pytest.fixture(name="drawn")
def _drawn():
    torch.manual_seed(0)
    return Residual().double()


@pytest.fixture(name="inputs")
def _inputs():
    return torch.randn(16, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 2 + 0.5


def converted(network, method, inputs):
    is_analytic = method in ("wn", "normprop", "ap2")
    return bln_search.convert(copy.deepcopy(network), method=method, example_inputs=inputs if is_analytic else None)


@pytest.mark.parametrize("statistics", ["none", "bn", "ap2"])
def test_converted_networks_of_all_methods_answer_alike(drawn, inputs, statistics):
    outputs = []
    for method in ("none", "bn", "mbn", "wn", "normprop", "ap2"):
        network = converted(drawn, method, inputs)
        assert bln_search.initialize(network, inputs, statistics=statistics) is network
        with torch.no_grad():
            outputs.append(network(inputs))
    for output in outputs[1:]:
        torch.testing.assert_close(output, outputs[0], rtol=1e-9, atol=1e-9)


def test_a_network_without_layers_of_this_package_is_scaled_to_deviation_one(inputs):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).double()
    bln_search.initialize(network, inputs)
    with torch.no_grad():
        outputs = network(inputs)
    torch.testing.assert_close(outputs.mean(0), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-9)
    torch.testing.assert_close(outputs.std(0, correction=0), torch.ones(5, dtype=torch.float64), rtol=1e-3, atol=0)


def test_a_layer_with_statistics_of_examples_is_refused_unless_the_function_may_change(drawn, inputs):
    network = converted(drawn, "bln", inputs)
    with pytest.raises(ModelError, match=r"layer stem\.1 \(bln\): .*preserve_function"):
        bln_search.initialize(network, inputs)
    weight = network.block[0].weight.clone()
    bln_search.initialize(network, inputs, preserve_function=False)
    assert not torch.equal(network.block[0].weight, weight)


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        ({"statistics": "ln"}, ValueError, "statistics must be"),
        ({"statistics": "ap2", "gain": "uniform"}, ValueError, "gain uniform belongs to the statistics bn"),
        ({"preserve_function": "no"}, TypeError, "preserve_function is True or False"),
        ({"seed": "0"}, TypeError, "seed is a whole number"),
        ({"inputs": [[1.0]]}, ModelError, "inputs is a mini-batch"),
        ({"network": "mlp"}, ModelError, r"call initialize\(network, inputs\)"),
    ],
)
def test_other_arguments_are_refused(drawn, inputs, arguments, error, part):
    with pytest.raises(error, match=part):
        bln_search.initialize(**{"network": drawn, "inputs": inputs, **arguments})
