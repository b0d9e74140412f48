"""Tensors from before the first normalization layer are repeated for the rows where they meet tensors from after it."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.configuration import InferenceConfiguration
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    RowBatchingError,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)

ROWS = tuple(InferenceRow(InferenceConfiguration(code), None) for code in ("--FF", "FF--", "FFFF"))
GROUPS, SIZE, FEATURES = 2, 4, 3
EXAMPLES = GROUPS * SIZE


@pytest.fixture
def layout():
    return BatchLayout(RowBatchingPlan(ROWS, {}), GROUPS, SIZE)


@pytest.fixture
def expanded(layout):
    """A tensor of all rows, (rows·examples, features)."""
    return tag_with_rows(torch.arange(3.0 * EXAMPLES * FEATURES).view(-1, FEATURES), layout, 3)


def test_examples_are_repeated_for_each_row(layout, expanded):
    examples = torch.randn(EXAMPLES, FEATURES)
    total = tag_with_rows(examples, layout, 1) + expanded
    assert total.copies == 3
    assert torch.equal(remove_row_tag(total), torch.cat([examples] * 3) + remove_row_tag(expanded))


def test_a_constant_without_axes_is_not_repeated(layout, expanded):
    constant = tag_with_rows(torch.tensor(2.0), layout, 1)
    assert torch.equal(remove_row_tag(constant * expanded), 2 * remove_row_tag(expanded))


@pytest.mark.parametrize("write", [lambda x, y: x.add_(y), lambda x, y: x.__setitem__(slice(None), x + y)])
def test_a_tensor_that_rows_are_written_into_has_all_rows(layout, expanded, write):
    examples = torch.randn(EXAMPLES, FEATURES)
    target = tag_with_rows(examples.clone(), layout, 1)
    write(target, expanded)
    assert target.copies == 3
    assert torch.equal(remove_row_tag(target), torch.cat([examples] * 3) + remove_row_tag(expanded))


@pytest.mark.parametrize("length", [1, EXAMPLES - 1, 3 * EXAMPLES])
def test_a_first_axis_without_examples_is_an_error(layout, expanded, length):
    with pytest.raises(RowBatchingError, match=f"does not hold the {EXAMPLES} examples"):
        tag_with_rows(torch.ones(length, FEATURES), layout, 1) + expanded
