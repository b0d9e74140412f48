"""The sample that decides how tanh is computed is spread over all examples."""

from __future__ import annotations

import pytest

from bln_search.norms.row_batching.fast_tanh import sample_example_indices


@pytest.mark.parametrize("examples", [0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 511, 512, 513, 24_800])
def test_indices_are_distinct_examples(examples):
    indices = sample_example_indices(examples)
    assert len(set(indices)) == len(indices) == min(examples, 32)
    assert all(0 <= index < examples for index in indices)


@pytest.mark.parametrize("size", [4, 25, 31, 775])
def test_several_examples_of_a_mini_batch_occur(size):
    assert len({index % size for index in sample_example_indices(size * 62)}) > 3
