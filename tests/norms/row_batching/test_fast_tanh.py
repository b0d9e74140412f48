"""tanh of the activations of many rows: its error, and where torch's function is used instead."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.norms.row_batching.fast_tanh import PIECE, tanh_of_rows
from bln_search.norms.row_batching.row_sum import RowOutputsAsSums

GROUPS, SIZE, ROWS = 3, 4, ((0, 0), (0, 1), (1, 0), (1, 2))


def exact_tanh(x):
    return np.tanh(x.numpy().astype(np.float64))


def make_row_sum(dtype, feature_shape=(5,), scale=1.0):
    """A sum with a batch variant for each mini-batch, one without a sample axis, and three feature variants."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return scale * torch.randn(*shape, dtype=dtype, generator=generator)

    batch = draw(GROUPS, SIZE, *feature_shape), draw(1, 1, *feature_shape)
    return RowOutputsAsSums(batch, draw(3, GROUPS, SIZE, *feature_shape), ROWS, GROUPS, SIZE, feature_shape)


@pytest.mark.parametrize("shape", [(40, 7), (40, 3, 6, 5), (PIECE // 8 + 1, 17)])
@pytest.mark.parametrize("scale", [0.02, 1.0, 30.0])
def test_error_is_small_in_every_channel(shape, scale):
    x = scale * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    channel_scale = np.sqrt((exact_tanh(x) ** 2).mean((0, *range(2, x.ndim)), keepdims=True))
    error = np.abs(tanh_of_rows(x).numpy() - exact_tanh(x))
    assert error.max() < 2e-7
    assert (error / channel_scale).max() < 2e-5
    assert not torch.equal(tanh_of_rows(x), torch.tanh(x))


@pytest.mark.parametrize(
    "x",
    [
        torch.linspace(-1e-3, 1e-3, 60).view(20, 3),
        torch.randn(20, 3, dtype=torch.float64),
        torch.randn(20, 3).half(),
        torch.cat([torch.randn(20, 3), torch.full((20, 1), 1e-4)], 1),
        torch.randn(3, 20).t(),
        torch.randn(20),
        torch.empty(0, 3),
    ],
    ids=["small", "double", "half", "one small channel", "transposed", "one axis", "empty"],
)
def test_torch_computes_what_would_be_inaccurate(x):
    assert torch.equal(tanh_of_rows(x), torch.tanh(x))


def test_special_values_are_those_of_torch():
    x = torch.tensor([[torch.inf, -torch.inf, torch.nan, 0.0, 200.0, -200.0]]).t().repeat(8, 2)
    assert torch.equal(tanh_of_rows(x).nan_to_num(7), torch.tanh(x).nan_to_num(7))


@pytest.mark.parametrize("feature_shape", [(5,), (2, 3, 4)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-7), (torch.float64, 0.0)])
def test_tanh_of_a_sum_of_variants_equals_that_of_its_rows(feature_shape, dtype, tolerance):
    rows = make_row_sum(dtype, feature_shape)
    batch, feature = rows.batch, rows.feature
    expected = torch.cat([torch.tanh(batch[b] + feature[f]).flatten(0, 1) for b, f in ROWS])
    found = rows.materialize_tanh()
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= tolerance


def test_tanh_of_a_small_sum_is_computed_by_torch():
    rows = make_row_sum(torch.float32, scale=1e-4)
    assert torch.equal(rows.materialize_tanh(), torch.tanh(rows.materialize()))


def test_tanh_of_a_sum_without_feature_statistics_is_that_of_its_rows():
    batch = (torch.randn(GROUPS, SIZE, 5), torch.randn(GROUPS, SIZE, 5))
    rows = RowOutputsAsSums(batch, None, ((0, 0), (1, 0)), GROUPS, SIZE, (5,))
    assert torch.equal(rows.materialize_tanh(), torch.tanh(torch.cat([term.flatten(0, 1) for term in batch])))
