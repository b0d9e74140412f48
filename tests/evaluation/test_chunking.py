"""Numbers of mini-batches and rows that are evaluated together."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.evaluation.chunking import ChunkSizes, choose_chunk_sizes
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
