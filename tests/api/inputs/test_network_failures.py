"""An error inside the user's network names layer, mini-batch and loader, and is chained."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import DataError, ModelError
from tests.support.tiers import thinned

torch.manual_seed(0)
X, Y = torch.randn(60, 6), torch.randint(0, 2, (60,))
BATCHES = list(zip(X.split(10), Y.split(10), strict=True))
BAD = 1e6


class FailsForValue(nn.Module):
    """Raises for inputs with a value, wherever they are in a pass."""

    def forward(self, x):
        if float(x.detach().max()) > BAD / 1e3:
            raise ArithmeticError("too large")
        return x


class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def fail_in_functional(x):
    return FailsForValue.forward(None, x)


class Functional(nn.Module):
    def forward(self, x):
        return fail_in_functional(x)


NETWORKS = {
    "in the layer 0 (FailsForValue)": FailsForValue,
    "in the layer 0.inner (FailsForValue)": lambda: Block(FailsForValue()),
    "in the layer 0 (Functional)": Functional,
}


def make_network(first):
    torch.manual_seed(1)
    return nn.Sequential(first, nn.Linear(6, 8), bln_search.BN(8), nn.ReLU(), nn.Linear(8, 2))


def with_bad_batch(number):
    batches = [(x.clone(), y) for x, y in BATCHES]
    batches[number][0][3, 2] = BAD
    return batches


def message_and_cause(call):
    with pytest.raises((DataError, ModelError)) as caught:
        call()
    error = caught.value
    causes = []
    while error is not None:
        causes.append(type(error))
        error = error.__cause__ or error.__context__
    assert ArithmeticError in causes
    return str(caught.value)


EVALUATIONS = {
    "train_loader": lambda network, bad: bln_search.evaluate_configurations(network, bad, BATCHES),
    "train_loader['b']": lambda network, bad: bln_search.evaluate_configurations(
        network, {"a": BATCHES, "b": bad}, BATCHES
    ),
    "validation_loader": lambda network, bad: bln_search.evaluate_configurations(network, BATCHES, bad),
    "validation_loader['b']": lambda network, bad: bln_search.evaluate_configurations(
        network, BATCHES, {"a": BATCHES, "b": bad}
    ),
    "test_loader": lambda network, bad: bln_search.evaluate_configurations(
        network, BATCHES, BATCHES, test_loader=bad, one_pass=False
    ),
}


@pytest.mark.parametrize("place", NETWORKS)
@pytest.mark.parametrize("loader", EVALUATIONS)
@pytest.mark.parametrize("number", thinned([1, 4], 2, start=1))
def test_an_evaluation_names_layer_mini_batch_and_loader(place, loader, number):
    text = message_and_cause(lambda: EVALUATIONS[loader](make_network(NETWORKS[place]()), with_bad_batch(number)))
    assert f"mini-batch {number} (counted from 0) of {loader} " in text
    assert place in text


@pytest.mark.filterwarnings("ignore:.*one by one")
@pytest.mark.parametrize("loader", ["train_loader", "validation_loader", "test_loader"])
def test_a_per_layer_search_names_layer_mini_batch_and_loader(loader):
    loaders = {name: list(BATCHES) for name in ("train_loader", "validation_loader", "test_loader")}
    loaders[loader] = with_bad_batch(3)
    network = make_network(NETWORKS["in the layer 0.inner (FailsForValue)"]())
    text = message_and_cause(lambda: bln_search.search_layers(network, **loaders))
    assert f"mini-batch 3 (counted from 0) of {loader} " in text
    assert "in the layer 0.inner (FailsForValue)" in text


class FailsAtCall(nn.Module):
    """Raises in a certain forward pass, whatever the inputs are."""

    def __init__(self, call):
        super().__init__()
        self.calls, self.failing = 0, call

    def forward(self, x):
        self.calls += 1
        if self.calls == self.failing:
            raise ArithmeticError("once")
        return x


@pytest.mark.parametrize("call", [3, 4, 6])
def test_an_error_that_no_mini_batch_causes_alone_says_so(call):
    network = make_network(FailsAtCall(call))
    text = message_and_cause(lambda: bln_search.evaluate_configurations(network, BATCHES, BATCHES, one_pass=False))
    assert "in the layer 0 (FailsAtCall)" in text
    assert "_loader" in text


def test_an_error_of_the_score_is_not_taken_for_one_of_the_network():
    def score(outputs, targets):
        if len(outputs) > 10:
            raise ArithmeticError("of the score")
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    with pytest.raises(ArithmeticError, match="of the score"):
        bln_search.evaluate_configurations(make_network(nn.Identity()), BATCHES, BATCHES, score=score)


def test_fine_tuning_names_layer_and_mini_batch():
    class FailsInTraining(nn.Module):
        def forward(self, x):
            if torch.is_grad_enabled() and float(x.max()) > float(X[:10].max()) + 10:
                raise ArithmeticError("too large")
            return x

    batches = [(x.clone(), y) for x, y in BATCHES]
    batches[2][0][3, 2] = 100.0
    text = message_and_cause(
        lambda: bln_search.fine_tune(
            make_network(FailsInTraining()), "FF--", batches, BATCHES, learning_rate=1e-3, epochs=1
        )
    )
    assert "in the layer 0 (FailsInTraining)" in text
    assert "train_loader" in text
