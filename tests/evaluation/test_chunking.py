"""Numbers of mini-batches and rows that are evaluated together."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.evaluation import chunking
from bln_search.evaluation.chunking import ChunkSizes, choose_chunk_sizes
from bln_search.models.pooling import AveragePool2
from bln_search.norms import BN

SHARED, EXPANDED = 8 * 100 * 4, 8 * 20 * 4
"""Bytes of the largest outputs before the normalization layer and from there on, in single precision."""


@pytest.mark.parametrize(
    ("rows", "memory_limit", "expected"),
    [
        (10, 10 * EXPANDED, ChunkSizes(groups=1, rows=10)),
        (10, 10 * EXPANDED - 1, ChunkSizes(groups=1, rows=9)),
        (10, 40 * EXPANDED, ChunkSizes(groups=4, rows=10)),
        (1, 3 * SHARED, ChunkSizes(groups=3, rows=1)),  # the layers before the normalization layer are the largest
        (2, EXPANDED - 1, ChunkSizes(groups=1, rows=1)),
        (1, SHARED - 1, ChunkSizes(groups=1, rows=1)),
    ],
)
def test_activations_of_all_rows_fit_the_limit(rows, memory_limit, expected):
    network = nn.Sequential(nn.Linear(4, 100), nn.Linear(100, 5), BN(5), nn.Linear(5, 20)).eval()
    with torch.no_grad():
        assert choose_chunk_sizes(network, torch.randn(8, 4), rows, memory_limit) == expected


def test_only_the_memory_limit_counts_outputs_before_a_pooling_after_the_first_normalization_layer(monkeypatch):
    tail = nn.Conv2d(2, 6, 3, padding=1), nn.Tanh(), AveragePool2()
    network = nn.Sequential(BN(2), *tail).eval()
    pooled, inputs = 5 * 2 * 4 * 4 * 4, torch.randn(5, 2, 4, 4)
    monkeypatch.setitem(chunking._FASTEST_BYTES, "cpu", 8 * pooled)
    with torch.no_grad():
        assert choose_chunk_sizes(network, inputs, 2, 10**6) == ChunkSizes(groups=4, rows=2)
        assert choose_chunk_sizes(network, inputs, 2, 6 * pooled - 1) == ChunkSizes(groups=1, rows=1)
        network = nn.Sequential(BN(2), *tail[:2]).eval()
        assert choose_chunk_sizes(network, inputs, 2, 10**6) == ChunkSizes(groups=1, rows=2)
