"""`fine_tune` names what it needs before it trains."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import bln_search
from bln_search.core.errors import ModelError

X, Y = (torch.randn(60, 6, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3)
BATCHES = list(zip(X.split(20), Y.split(20), strict=True))


def make_network(first=None):
    torch.manual_seed(0)
    network = nn.Sequential(first or nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    for x, _ in BATCHES:
        network(x)
    return bln_search.convert(network.eval(), method="same")


def tune(network):
    return bln_search.fine_tune(network, "TT--", BATCHES, BATCHES, learning_rate=0.01, epochs=1)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "change",
    [
        nn.utils.weight_norm,
        nn.utils.spectral_norm,
        lambda layer: prune.l1_unstructured(layer, "weight", amount=0.5),
        parametrizations.weight_norm,
    ],
)
def test_a_layer_whose_weight_is_computed_from_others_is_trained(change):
    network = make_network(change(nn.Linear(6, 8)))
    network(X)  # the computed weight has a gradient function now
    before = copy.deepcopy(list(network.parameters()))
    tuned, result = tune(network)
    assert result.diverged is None
    assert all(torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))
    assert not torch.equal(tuned(X), network(X))


def test_an_object_that_cannot_be_copied_is_named():
    network = make_network()
    network.lock = threading.Lock()
    with pytest.raises(ModelError, match=r"cannot be copied \(TypeError: .*lock"):
        tune(network)


def test_a_network_without_a_parameter_to_train_is_an_error():
    with pytest.raises(ModelError, match="parameters that require gradients, and this Sequential has none"):
        tune(make_network().requires_grad_(requires_grad=False))
