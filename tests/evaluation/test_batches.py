"""Every example is counted once, in a mini-batch of the right size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.errors import DataError
from bln_search.evaluation.batches import (
    group_adjacent_batches,
    iter_batches_filled_to_first_size,
    iter_mini_batches_with_fillers,
)


@given(n=st.integers(1, 60), size=st.integers(1, 60), groups=st.integers(1, 9))
def test_every_example_is_counted_once_in_full_mini_batches(n, size, groups):
    x = torch.arange(n)
    if size > n:
        with pytest.raises(DataError, match=rf"{size} examples .* {n} examples"):
            list(iter_mini_batches_with_fillers(x, x, size))
        return
    targets = []
    for group in group_adjacent_batches(iter_mini_batches_with_fillers(x, x, size), groups):
        assert group.size == size
        assert len(group.inputs) == group.groups * size
        assert group.groups <= groups
        targets += group.targets.tolist()
        assert group.inputs[: len(group.targets)].tolist() == group.targets.tolist()
    assert targets == list(range(n))


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12), groups=st.integers(1, 5))
def test_mini_batches_of_different_sizes_are_never_mixed(sizes, groups):
    batches = [(torch.zeros(size), torch.zeros(size)) for size in sizes]
    assert [size for group in group_adjacent_batches(batches, groups) for size in [group.size] * group.groups] == sizes


def test_a_short_last_batch_is_filled_without_targets():
    x = torch.arange(10)
    (_, _), (_, _), (inputs, targets) = iter_batches_filled_to_first_size(
        [(x[:4], x[:4]), (x[4:8], x[4:8]), (x[8:], x[8:])]
    )
    assert inputs.tolist() == [8, 9, 0, 1]
    assert targets.tolist() == [8, 9]


def test_filler_examples_of_another_shape_are_an_error():
    with pytest.raises(DataError, match=r"shape \(3,\) .* shape \(5,\)"):
        list(
            iter_batches_filled_to_first_size(
                [(torch.zeros(4, 5), torch.zeros(4)), (torch.zeros(2, 3), torch.zeros(2))]
            )
        )
