"""The state of a network has its buffers and attributes, however many objects the attributes contain."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from bln_search.evaluation import network_state
from bln_search.evaluation.network_state import NetworkState


class Counting(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.inner = nn.BatchNorm1d(3)
        self.register_buffer("mean", torch.zeros(3))
        self.calls, self.history = 0, []


TABLES = {
    "lists": lambda n: {index: [index] for index in range(n)},
    "a list of lists": lambda n: [[index] for index in range(n)],
    "tensors": lambda n: [torch.zeros(1) for _ in range(n)],
    "dictionaries": lambda n: {str(index): {} for index in range(n)},
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("number", [10, 1000])
def test_buffers_and_attributes_are_restored_beside_a_large_table(monkeypatch, kind, number):
    monkeypatch.setattr(network_state, "_MOST_OBJECTS", 300)
    network = nn.Sequential(Counting(TABLES[kind](number)), Counting(TABLES[kind](number)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = NetworkState(network)
    assert len(caught) == (number > 300)
    assert state.is_current
    for part in network:
        part.mean.add_(1)
        part.inner.running_mean.add_(1)
        part.calls += 1
        part.new = 3
    assert not state.is_current
    state.restore()
    assert state.is_current
    for part in network:
        assert not part.mean.any()
        assert not part.inner.running_mean.any()
        assert part.calls == 0
        assert not hasattr(part, "new")
