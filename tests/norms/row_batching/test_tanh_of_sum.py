"""tanh of a factored sum by the compiled kernel, compared with torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from bln_search.norms.row_batching import tanh_of_sum
from bln_search.norms.row_batching.factored_sum import FactoredSum
from bln_search.norms.row_batching.tanh_of_sum import TanhOfFactoredSum, try_defer_tanh

pytest.importorskip("numba", reason="the extra `fast` is not installed")

pytestmark = pytest.mark.xdist_group("kernels")

TOLERANCE = 4e-7
"""Three units in the last place below one, and the rounding of torch's function."""


def make_sum(groups=2, size=3, shape=(2, 5, 6), scales=2, *, common_offset=False, seed=0, scale=1.0):
    """A sum with two offsets for each scale, in all combinations of its variants."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*leading):
        return scale * torch.randn(*leading, *shape, generator=generator)

    variants = tuple((offset // 2, offset) for offset in range(2 * scales))
    return FactoredSum(
        scaled_batch=draw(scales, groups, size),
        offset_batch=draw(2 * scales, 1 if common_offset else groups, 1),
        scaled_feature=draw(scales, groups, size),
        offset_feature=draw(2 * scales, groups, size),
        batch_variants=variants,
        feature_variants=variants,
        rows=tuple((b, f) for b in range(2 * scales) for f in reversed(range(2 * scales))),
        groups=groups,
        size=size,
        feature_shape=shape,
        gamma=None,
        feature_axis=0,
    )


shapes = st.one_of(
    st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 37)).filter(lambda s: s[1] * s[2] >= 16),
    st.tuples(st.integers(16, 70)),
)


@settings(max_examples=60, deadline=None)
@given(
    shape=shapes,
    groups=st.integers(1, 3),
    size=st.integers(1, 4),
    scales=st.integers(1, 2),
    common_offset=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 30.0]),
)
def test_kernel_equals_torch_for_any_shape(shape, groups, size, scales, common_offset, scale):
    terms = make_sum(groups, size, shape, scales, common_offset=common_offset, scale=scale)
    expected = torch.tanh(terms.materialize().double())
    assert torch.allclose(TanhOfFactoredSum(terms).materialize().double(), expected, rtol=0, atol=TOLERANCE)


@settings(max_examples=60, deadline=None)
@given(shape=shapes.filter(lambda s: len(s) == 3), groups=st.integers(1, 3), size=st.integers(1, 4))
def test_pooling_kernel_equals_torch_for_any_shape(shape, groups, size):
    terms = make_sum(groups, size, shape)
    pooled = TanhOfFactoredSum(terms, is_pooled=True)
    found = pooled.materialize().double()
    assert found.shape[1:] == pooled.feature_shape
    if found.numel():
        expected = F.avg_pool2d(torch.tanh(terms.materialize().double()), 2)
        assert torch.allclose(found, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_special_values_stay_in_their_example(value, threads):
    terms = make_sum()
    terms.scaled_feature[:, 1, 2, 0, 0, 0] = value
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found = TanhOfFactoredSum(terms).materialize()
    torch.set_num_threads(before)
    expected = torch.tanh(terms.materialize())
    assert torch.allclose(found, expected, rtol=0, atol=TOLERANCE, equal_nan=True)
    assert torch.equal(found.isnan(), expected.isnan())


@pytest.fixture
def for_any_size(monkeypatch):
    monkeypatch.setattr(tanh_of_sum, "FEWEST_VALUES", 1)


def test_large_sums_are_deferred(for_any_size):
    assert try_defer_tanh(make_sum()) is not None


def test_small_sums_are_computed_by_torch():
    assert try_defer_tanh(make_sum()) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda terms: replace(terms, scaled_batch=terms.scaled_batch.double()),
        lambda terms: replace(terms, scaled_batch=None),
        lambda terms: replace(terms, scaled_feature=None, offset_feature=None),
        lambda terms: replace(terms, gamma=torch.ones(2, 1, 1)),
        lambda terms: replace(terms, offset_feature=terms.offset_feature[..., :1].expand(-1, -1, -1, -1, -1, 6)),
        lambda terms: replace(terms, offset_batch=terms.offset_batch.clone().requires_grad_()),
        lambda _: make_sum(shape=(2, 3, 5)),
        lambda _: make_sum(shape=(4, 20)),
    ],
    ids=["double", "no batch", "no feature", "before a layer", "expanded", "gradient", "small channel", "two axes"],
)
def test_other_sums_are_computed_by_torch(for_any_size, change):
    assert try_defer_tanh(change(make_sum())) is None


@pytest.mark.parametrize(
    ("args", "is_pooled"),
    [
        ((2,), True),
        (((2, 2), (2, 2)), True),
        ((2, 2, 0, False, True, None), True),
        ((3,), False),
        ((2, 1), False),
        ((2, 2, 1), False),
        ((2, 2, 0, True), False),
    ],
)
def test_pooling_of_squares_is_part_of_the_kernel(args, is_pooled):
    deferred = TanhOfFactoredSum(make_sum()).try_apply(F.avg_pool2d, args, {})
    assert (deferred is not None) == is_pooled


def test_tanh_of_tanh_is_computed():
    deferred = TanhOfFactoredSum(make_sum())
    assert torch.equal(deferred.materialize_tanh(), torch.tanh(deferred.materialize()))
