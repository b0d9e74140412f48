"""A network is copied although hooks compute its weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

from bln_search.norms.network.copying import copy_network


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "change",
    [
        nn.utils.weight_norm,
        lambda layer: prune.l1_unstructured(layer, "weight", amount=0.5),
        lambda layer: prune.random_unstructured(layer, "bias", amount=0.5),
        parametrizations.weight_norm,
    ],
)
def test_a_copy_has_the_values_and_its_own_parameters(change):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
    change(network[0])
    x = torch.randn(4, 6)
    expected = network(x).detach()
    copied = copy_network(network)
    assert torch.equal(copied(x), expected)
    for parameter in copied.parameters():
        parameter.data.mul_(2)
    assert torch.equal(network(x), expected)
    assert not torch.equal(copied(x), expected)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_torch_copies_no_such_network_itself():
    layer = nn.utils.weight_norm(nn.Linear(6, 8))
    layer(torch.randn(4, 6))
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(layer)
