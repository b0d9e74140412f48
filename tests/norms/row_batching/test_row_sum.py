"""Elementwise functions of the outputs of all rows, which are sums of few terms, compared with double precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from bln_search.core.configuration import InferenceConfiguration
from bln_search.models.pooling import AveragePool2
from bln_search.norms.row_batching import row_sum
from bln_search.norms.row_batching.factored_sum import NO_OFFSET, FactoredSum
from bln_search.norms.row_batching.row_sum import RowOutputsAsSums
from bln_search.norms.row_batching.row_tensor import (
    BatchLayout,
    InferenceRow,
    LazyRowTensor,
    RowBatchingPlan,
    remove_row_tag,
    tag_with_rows,
)

TOLERANCE = 5e-7
"""Three units in the last place below one, and the rounding of torch's function."""

FUNCTIONS = {"none": nn.Identity(), "tanh": nn.Tanh(), "relu": nn.ReLU(), "gelu": nn.GELU(), "sigmoid": nn.Sigmoid()}


def make_factored_sum(groups=2, size=3, shape=(2, 5, 6), *, common_offset=False, scale=1.0, no_offset=()):
    """A sum of two scaled terms with two offsets each, in all combinations; variants in `no_offset` have no offset."""
    generator = torch.Generator().manual_seed(0)

    def draw(*leading):
        return scale * torch.randn(*leading, *shape, generator=generator)

    variants = tuple((offset // 2, offset) for offset in range(4))
    return FactoredSum(
        scaled_batch=draw(2, groups, size),
        offset_batch=draw(4, 1 if common_offset else groups, 1),
        scaled_feature=draw(2, groups, size),
        offset_feature=draw(4, groups, size),
        batch_variants=variants,
        feature_variants=tuple((scaled, NO_OFFSET if offset in no_offset else offset) for scaled, offset in variants),
        rows=tuple((b, f) for b in range(4) for f in reversed(range(4))),
        groups=groups,
        size=size,
        feature_shape=shape,
        gamma=None,
        feature_axis=0,
    )


def rows_in_double(terms):
    """All rows of a factored sum, (rows·G·N, *features)."""
    batch = [terms.scaled_batch[scaled] + terms.offset_batch[offset] for scaled, offset in terms.batch_variants]
    feature = [
        terms.scaled_feature[scaled] + (0 if offset == NO_OFFSET else terms.offset_feature[offset])
        for scaled, offset in terms.feature_variants
    ]
    return torch.cat([(batch[b] + feature[f]).flatten(0, 1) for b, f in terms.rows]).double()


def as_tensor(terms):
    """The rows as the next module of a network receives them."""
    rows = tuple(InferenceRow(InferenceConfiguration("FFFF"), None) for _ in terms.rows)
    layout = BatchLayout(RowBatchingPlan(rows, {}), terms.groups, terms.size)
    return LazyRowTensor.from_factored_output(terms, layout)


shapes = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 20)) | st.tuples(st.integers(1, 40))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=shapes,
    groups=st.integers(1, 5),
    size=st.integers(1, 4),
    piece=st.sampled_from([1, 100, 2**17]),
    common_offset=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 30.0]),
    no_offset=st.sampled_from([(), (0,), (0, 1)]),
    function=st.sampled_from(list(FUNCTIONS)),
)
def test_functions_of_all_rows_equal_those_in_double_precision(
    monkeypatch, shape, groups, size, piece, common_offset, scale, no_offset, function
):
    monkeypatch.setattr(row_sum, "_PIECE", piece)
    terms = make_factored_sum(groups, size, shape, common_offset=common_offset, scale=scale, no_offset=no_offset)
    found, expected = FUNCTIONS[function](as_tensor(terms)), FUNCTIONS[function](rows_in_double(terms))
    assert found.shape == expected.shape
    tolerance = TOLERANCE * max(1.0, scale) * (4 if function == "gelu" else 1)
    assert torch.allclose(remove_row_tag(found).double(), expected, rtol=1e-4, atol=tolerance)
    if len(shape) == 3 and min(shape[1:]) > 1:
        pooled = F.avg_pool2d(FUNCTIONS[function](as_tensor(terms)), 2)
        assert torch.allclose(remove_row_tag(pooled).double(), F.avg_pool2d(expected, 2), rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("pooling", [nn.AvgPool2d(2), AveragePool2()])
@pytest.mark.parametrize("function", ["tanh", "relu", "gelu"])
def test_a_function_and_its_pooling_are_computed_together(monkeypatch, function, pooling):
    pooled = []
    original = FactoredSum.materialize
    monkeypatch.setattr(
        FactoredSum, "materialize", lambda *args, pools: (pooled.append(pools), original(*args, pools=pools))[1]
    )
    remove_row_tag(pooling(FUNCTIONS[function](as_tensor(make_factored_sum()))))
    assert pooled == [True]


@pytest.mark.parametrize("args", [(3,), (2, 1), (2, 2, 1), (2, 2, 0, True)], ids=str)
def test_other_poolings_are_those_of_torch(args):
    terms = make_factored_sum()
    found = F.avg_pool2d(torch.tanh(as_tensor(terms)), *args)
    expected = F.avg_pool2d(torch.tanh(rows_in_double(terms)), *args)
    assert torch.allclose(remove_row_tag(found).double(), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("function", ["none", "tanh"])
@pytest.mark.parametrize(
    ("dtype", "has_features"), [(torch.float32, True), (torch.float64, True), (torch.float32, False)]
)
def test_rows_in_any_order_are_sums_of_their_variants(function, dtype, has_features):
    generator = torch.Generator().manual_seed(1)
    batch = (
        torch.randn(2, 4, 5, generator=generator, dtype=dtype),
        torch.randn(1, 1, 5, generator=generator, dtype=dtype),
    )
    feature = torch.randn(3, 2, 4, 5, generator=generator, dtype=dtype) if has_features else None
    rows = ((1, 2), (0, 0), (0, 1), (0, 2), (0, 0), (0, 1), (1, 0))
    sums = RowOutputsAsSums(batch=batch, feature=feature, rows=rows, groups=2, size=4, feature_shape=(5,))
    expected = torch.cat(
        [(batch[b] + (feature[f] if has_features else torch.zeros(2, 4, 5))).flatten(0, 1) for b, f in rows]
    )
    found = remove_row_tag(FUNCTIONS[function](as_tensor(sums)))
    tolerance = TOLERANCE if (function, dtype) == ("tanh", torch.float32) else 0
    assert torch.allclose(found, FUNCTIONS[function](expected), rtol=0, atol=tolerance)


@pytest.mark.parametrize("scale", [0.02, 1.0, 30.0])
@pytest.mark.parametrize("shape", [(40, 7), (40, 3, 6, 5)], ids=str)
def test_error_of_tanh_is_small_in_every_channel(shape, scale):
    x = scale * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    exact = torch.tanh(x.double())
    error = (tanh_of_rows(x).double() - exact).abs()
    assert error.max() < 2e-7
    assert (error / exact.square().mean((0, *range(2, x.ndim)), keepdim=True).sqrt()).max() < 2e-5


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
def test_torch_computes_the_tanh_that_would_be_inaccurate(x):
    assert torch.equal(tanh_of_rows(x), torch.tanh(x))


def tanh_of_rows(x):
    rows = (InferenceRow(InferenceConfiguration("FFFF"), None),)
    return remove_row_tag(torch.tanh(tag_with_rows(x, BatchLayout(RowBatchingPlan(rows, {}), 1, len(x)), 1)))


def test_small_sums_keep_their_relative_accuracy():
    terms = make_factored_sum(scale=1e-4)
    assert torch.equal(remove_row_tag(torch.tanh(as_tensor(terms))), torch.tanh(terms.materialize()))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_special_values_stay_in_their_example(value):
    terms = make_factored_sum()
    terms.scaled_feature[:, 1, 2, 0, 0, 0] = value
    found, expected = remove_row_tag(torch.tanh(as_tensor(terms))), torch.tanh(terms.materialize())
    assert torch.allclose(found, expected, rtol=0, atol=TOLERANCE, equal_nan=True)


def test_a_function_of_a_function_is_computed():
    terms = replace(make_factored_sum(), rows=((0, 0),))
    found = torch.relu(torch.tanh(as_tensor(terms)))
    assert torch.allclose(remove_row_tag(found).double(), torch.relu(torch.tanh(rows_in_double(terms))), atol=TOLERANCE)
