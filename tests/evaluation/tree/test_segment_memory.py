"""Sizes of the tensors of each segment, and the numbers that scale with the examples."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.evaluation.tree.graph.segments import split_at_norms
from bln_search.evaluation.tree.graph.tracing import NotTraceableError
from bln_search.evaluation.tree.segment_memory import choose_chunk_bytes, measure_memory_of_all_segments
from bln_search.norms import BN


class ScaledByNumber(nn.Module):
    """Multiplies the output of its normalization layer by a number that it reads from its input."""

    def __init__(self, number):
        super().__init__()
        self.number, self.norm = number, BN(3)

    def forward(self, x):
        number = self.number(x)
        return self.norm(x) * number


def measure(network, examples=8, features=3):
    return measure_memory_of_all_segments(split_at_norms(network.eval()), torch.randn(examples, features))


def test_a_number_that_neither_doubles_nor_stays_is_not_traceable():
    with pytest.raises(NotTraceableError, match="9 became 17"):
        measure(ScaledByNumber(lambda x: torch.cat([x, x[:1]]).shape[0]))


@pytest.mark.parametrize(("device", "fastest"), [("cpu", 28 * 2**20), ("cuda", 256 * 2**20)])
def test_a_chunk_has_the_fastest_size_within_the_memory_limit(device, fastest):
    for memory_limit in (1_000, fastest - 1, fastest, 2**40):
        assert choose_chunk_bytes(memory_limit, torch.device(device)) == min(memory_limit, fastest)
    assert choose_chunk_bytes(2**40, torch.device("meta")) == 2**40
