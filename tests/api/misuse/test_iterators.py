"""Iterators are read once: one that would be read twice is one error before any call of the network."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

import bln_search
from bln_search.core.errors import DataError
from tests.api.misuse.counted_network import TRAIN, VALIDATION, Counted, batches
from tests.api.own_network import make_network

SHARED = {
    "population and validation": lambda data: ((data, data), {}),
    "two populations": lambda data: (({"source": data, "target": data}, VALIDATION), {}),
    "two conditions": lambda data: ((TRAIN, {"clean": data, "noise": data}), {}),
    "validation and test": lambda data: ((TRAIN, data), {"test_loader": data}),
}


@pytest.mark.parametrize(
    "iterator", [iter, lambda data: (batch for batch in data), chain], ids=["iter", "gen", "chain"]
)
@pytest.mark.parametrize("kind", SHARED)
def test_an_iterator_given_twice_is_one_error_without_a_call(kind, iterator):
    network = Counted()
    loaders, options = SHARED[kind](iterator(batches()))
    with pytest.raises(DataError, match=r"are the same \w+, which can be read once"):
        bln_search.evaluate_configurations(network, *loaders, **options)
    assert network.calls == 0


@pytest.mark.parametrize("options", [{}, {"batch_sizes": [7, 20]}])
def test_iterators_are_loaders(options):
    """They give the results of lists, also where the first mini-batches are read to count examples."""
    expected = bln_search.evaluate_configurations(make_network(), TRAIN, VALIDATION, **options)
    ranked = bln_search.evaluate_configurations(make_network(), iter(TRAIN), iter(VALIDATION), **options)
    assert ranked.to_records() == expected.to_records()


class ReadOnce:
    """A loader that is no iterator and yields nothing when it is read again."""

    def __init__(self, data):
        self.data = list(data)

    def __iter__(self):
        while self.data:
            yield self.data.pop(0)


def test_a_loader_without_mini_batches_for_the_second_network_is_one_error():
    networks = [make_network(), make_network()]
    with torch.no_grad():
        next(networks[1].parameters()).add_(1)
    with pytest.raises(DataError, match="validation_loader yields no mini-batch when it is read again"):
        bln_search.evaluate_configurations(networks, TRAIN, ReadOnce(VALIDATION))
