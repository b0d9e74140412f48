"""Sums of batch variants and feature variants, in the order of the rows."""

from __future__ import annotations

import pytest
import torch

from bln_search.norms.row_batching.row_sum import RowOutputsAsSums

GROUPS, SIZE, FEATURES = 2, 3, 4


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 0), (0, 1), (1, 0), (1, 1)],
        [(1, 1), (0, 0), (1, 0), (0, 1)],
        [(2, 0), (1, 0), (0, 0), (0, 1)],
        [(0, 1), (0, 0), (0, 1)],
        [(1, 0)],
    ],
)
@pytest.mark.parametrize("has_features", [True, False])
def test_each_row_is_the_sum_of_its_variants(rows, has_features):
    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(3, GROUPS, SIZE, FEATURES, generator=generator)
    feature = torch.randn(2, GROUPS, SIZE, FEATURES, generator=generator)
    row_sum = RowOutputsAsSums(tuple(batch), feature if has_features else None, tuple(rows), GROUPS, SIZE, (FEATURES,))
    expected = torch.stack([batch[first] + (feature[second] if has_features else 0) for first, second in rows])
    assert torch.equal(row_sum.materialize(), expected.view(-1, FEATURES))
