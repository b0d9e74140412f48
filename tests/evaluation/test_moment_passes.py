"""Several mini-batches pass a network at once with the statistics of each, where that gives the same moments."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.data.inputs import make_structured_inputs
from bln_search.evaluation import collect_moments_with_frozen_weights, populations
from bln_search.models import build_model
from bln_search.models.recurrent.time_step_norms import TimeStepNorms
from bln_search.norms import BLN, make_norm
from tests.evaluation.builders import SIZE, build_network, draw_examples
from tests.evaluation.networks import NETWORKS

METHODS = ["bn", "ln", "bln", "mbn", "brn"]


class CountedPasses(nn.Module):
    """A network that counts its forward passes where the evaluation does not restore the count: in its class."""

    passes = 0

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        type(self).passes += 1
        return self.network(x)


def assert_same_moments(network, inputs, *, is_at_once=True):
    """Moments of all mini-batches at once equal those one by one, and take fewer passes."""
    counted, CountedPasses.passes = CountedPasses(network), 0
    expected = collect_moments_with_frozen_weights(counted, inputs)
    one_by_one, CountedPasses.passes = CountedPasses.passes, 0
    moments = collect_moments_with_frozen_weights(counted, inputs, several_at_once=True)
    assert (CountedPasses.passes < one_by_one) == is_at_once
    assert moments.keys() == expected.keys()
    for name, layer in expected.items():
        assert (moments[name].batch_size, moments[name].values_per_batch) == (layer.batch_size, layer.values_per_batch)
        for pair, expected_pair in ((moments[name].batch, layer.batch), (moments[name].feature, layer.feature)):
            assert (pair is None) == (expected_pair is None)
            for value, true in zip(pair.as_tuple if pair else (), expected_pair.as_tuple if pair else (), strict=True):
                torch.testing.assert_close(value, true, rtol=1e-10, atol=1e-12)


@pytest.fixture
def few_at_once(monkeypatch):
    monkeypatch.setattr(populations, "_CHECKED_MINI_BATCHES", 3)
    monkeypatch.setattr(populations, "_MOST_MINI_BATCHES", 3)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("name", NETWORKS)
def test_moments_of_every_kind_of_network(name):
    """With 11 mini-batches the last pass has fewer than the others."""
    assert_same_moments(build_network(name), draw_examples(name, 11 * SIZE)[0].split(SIZE))


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("method", METHODS)
def test_moments_of_every_method(method, semantics):
    if semantics == "reference" and method in {"mbn", "brn"}:
        pytest.skip("these methods have one variant")
    network = build_network("lenet", method, semantics)
    assert_same_moments(network, draw_examples("lenet", 9 * SIZE)[0].split(SIZE))


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("normalize", ["layers", "cells"])
@pytest.mark.parametrize("model", ["lstm", "gru"])
def test_norms_of_recurrent_layers(model, normalize):
    torch.manual_seed(0)
    options = {"widths": [5], "embedding": 4, "normalize": normalize}
    network = build_model(model, (7,), 2, BLN, seed=0, vocabulary=20, options=options).double()
    assert_same_moments(network, torch.randint(1, 20, (9 * SIZE, 7)).split(SIZE))


class Mixing(nn.Module):
    """Subtracts the mean of the mini-batch, which the pass of several takes over all of them."""

    def __init__(self):
        super().__init__()
        self.norm, self.head, self.last = BLN(4), nn.Linear(4, 3), BLN(3)

    def forward(self, x):
        x = self.norm(x)
        return self.last(self.head(x - x.mean(0)))


class Reading(nn.Module):
    """Reads the number of examples, so that no pass of several is possible."""

    def __init__(self):
        super().__init__()
        self.norm = BLN(4)

    def forward(self, x):
        return self.norm(x + torch.arange(SIZE, dtype=x.dtype)[:, None])


class Centring(nn.Module):
    """Its means vary with the size of a mini-batch in one channel, beside one whose mean is large."""

    def __init__(self):
        super().__init__()
        self.norm = make_norm("bn", 4)

    def forward(self, x):
        return self.norm(x - x.mean(0) + torch.tensor([1000.0, 0, 0, 0], dtype=x.dtype))


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("network", [Mixing(), Reading(), Centring()], ids=lambda made: type(made).__name__)
def test_a_network_that_depends_on_the_mini_batch_passes_each_alone(network):
    torch.manual_seed(0)
    assert_same_moments(network.double(), (torch.randn(9 * SIZE, 4).double() ** 3).split(SIZE), is_at_once=False)


@pytest.mark.usefixtures("few_at_once")
def test_structured_inputs_pass_each_alone():
    class Keyed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = BLN(4)

        def forward(self, inputs):
            return self.norm(inputs.build_structure()["x"])

    torch.manual_seed(0)
    inputs = [make_structured_inputs({"x": torch.randn(SIZE, 4).double()}) for _ in range(7)]
    assert_same_moments(Keyed().double(), inputs, is_at_once=False)


class Selecting(nn.Module):
    """Normalizes pairs of large values, of which a mini-batch of the test has none or two, and several have four."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = BLN(4), BLN(8)

    def forward(self, x):
        x = self.norm(x)
        large = x[x[:, 0].abs() > 2]
        if len(large):
            self.last(large.reshape(1, 8))
        return x


@pytest.mark.usefixtures("few_at_once")
def test_mini_batches_after_an_error_pass_one_by_one():
    """What the failed pass of several accumulated does not count."""
    torch.manual_seed(0)
    inputs = torch.randn(12 * SIZE, 4).double().clamp(-1, 1)
    inputs[8 * SIZE : 8 * SIZE + 2, 0] = 50.0
    inputs[10 * SIZE : 10 * SIZE + 2, 0] = 50.0
    network = Selecting().double()
    expected = collect_moments_with_frozen_weights(network, inputs.split(SIZE))
    moments = collect_moments_with_frozen_weights(network, inputs.split(SIZE), several_at_once=True)
    for name, layer in expected.items():
        for value, true in zip(moments[name].batch.as_tuple, layer.batch.as_tuple, strict=True):
            torch.testing.assert_close(value, true, rtol=1e-10, atol=1e-12)


class Padded(nn.Module):
    """Norms at each time step, over the examples whose sequence has not ended."""

    def __init__(self, method):
        super().__init__()
        self.norms = TimeStepNorms(lambda size: make_norm(method, size), 3, 4)

    def forward(self, x):
        present = (x != 0).any(2)
        return torch.stack([self.norms(x[:, step], step, present[:, step]) for step in range(4)], 1)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("method", ["bn", "mbn", "ln", "bln"])
def test_statistics_over_present_examples_pass_each_alone(method):
    torch.manual_seed(0)
    inputs = torch.randn(9 * SIZE, 4, 3).double()
    inputs[5:20, 2:] = 0
    assert_same_moments(Padded(method).double(), inputs.split(SIZE), is_at_once=False)
