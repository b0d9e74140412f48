"""Networks with lazy layers are evaluated with every kind of loader."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import bln_search

BATCHES = [(torch.randn(10, 6), torch.randint(0, 3, (10,))) for _ in range(4)]


class Iterable:
    def __iter__(self):
        return iter(BATCHES)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(BATCHES)


LOADERS = {"list": lambda: BATCHES, "iterable": Iterable, "stream": lambda: DataLoader(Stream(), batch_size=None)}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("function", [bln_search.evaluate_configurations, bln_search.search_layers])
def test_rows_are_those_of_the_network_with_its_weights(kind, function):
    network = nn.Sequential(nn.LazyLinear(8), bln_search.BN(8), nn.LazyLinear(3)).eval()
    result = function(network, LOADERS[kind](), LOADERS[kind]())
    expected = function(copy.deepcopy(network), BATCHES, BATCHES)
    assert result.measured_with == expected.measured_with
    assert str(result) == str(expected)
