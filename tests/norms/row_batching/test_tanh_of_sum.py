"""tanh of a factored sum by the compiled kernel and in pieces, compared with torch in double precision."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from bln_search.norms.row_batching import tanh_in_pieces, tanh_of_sum
from bln_search.norms.row_batching.compiled.availability import are_kernels_installed, use_torch_instead_of_kernels
from bln_search.norms.row_batching.factored_sum import NO_OFFSET, FactoredSum
from bln_search.norms.row_batching.tanh_of_sum import TanhOfFactoredSum, try_defer_tanh

pytestmark = pytest.mark.xdist_group("kernels")

needs_kernels = pytest.mark.skipif(not are_kernels_installed(), reason="the extra `fast` is not installed")
by_kernel_or_torch = pytest.mark.parametrize("uses_kernel", [pytest.param(True, marks=needs_kernels), False])

TOLERANCE = 4e-7
"""Three units in the last place below one, and the rounding of torch's function."""


def make_sum(groups=2, size=3, shape=(2, 5, 6), scales=2, *, common_offset=False, seed=0, scale=1.0, no_offset=()):
    """A sum with two offsets for each scale, in all combinations of its variants.

    `no_offset` are the feature variants without an offset.
    """
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
        feature_variants=tuple((scaled, NO_OFFSET if offset in no_offset else offset) for scaled, offset in variants),
        rows=tuple((b, f) for b in range(2 * scales) for f in reversed(range(2 * scales))),
        groups=groups,
        size=size,
        feature_shape=shape,
        gamma=None,
        feature_axis=0,
    )


def compute_exactly(terms):
    """tanh of all rows in double precision, (rows·G·N, *features)."""
    batch = [terms.scaled_batch[scaled] + terms.offset_batch[offset] for scaled, offset in terms.batch_variants]
    feature = [
        terms.scaled_feature[scaled] + (0 if offset == NO_OFFSET else terms.offset_feature[offset])
        for scaled, offset in terms.feature_variants
    ]
    return torch.tanh(torch.cat([(batch[b] + feature[f]).flatten(0, 1) for b, f in terms.rows]).double())


images = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 37)).filter(lambda s: s[1] * s[2] >= 16)
shapes = st.one_of(images, st.tuples(st.integers(16, 70)))
no_offsets = st.sampled_from([(), (0,), (0, 1)])


@needs_kernels
@settings(max_examples=60, deadline=None)
@given(
    shape=shapes,
    groups=st.integers(1, 3),
    size=st.integers(1, 4),
    scales=st.integers(1, 2),
    common_offset=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 30.0]),
    no_offset=no_offsets,
)
def test_kernel_equals_torch_for_any_shape(shape, groups, size, scales, common_offset, scale, no_offset):
    terms = make_sum(groups, size, shape, scales, common_offset=common_offset, scale=scale, no_offset=no_offset)
    found = TanhOfFactoredSum(terms).materialize().double()
    assert torch.allclose(found, compute_exactly(terms), rtol=0, atol=TOLERANCE)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=images,
    groups=st.integers(1, 5),
    size=st.integers(1, 4),
    piece=st.sampled_from([1, 1_000, 2**19]),
    common_offset=st.booleans(),
    scale=st.sampled_from([1e-6, 1.0, 30.0]),
    no_offset=no_offsets,
)
def test_pieces_equal_torch_for_any_shape(monkeypatch, shape, groups, size, piece, common_offset, scale, no_offset):
    monkeypatch.setattr(tanh_in_pieces, "_PIECE", piece)
    terms = make_sum(groups, size, shape, common_offset=common_offset, scale=scale, no_offset=no_offset)
    found = TanhOfFactoredSum(terms, uses_kernel=False).materialize().double()
    assert torch.allclose(found, compute_exactly(terms), rtol=0, atol=TOLERANCE)


@by_kernel_or_torch
@settings(max_examples=60, deadline=None)
@given(shape=images, groups=st.integers(1, 3), size=st.integers(1, 4))
def test_pooled_tanh_equals_torch_for_any_shape(uses_kernel, shape, groups, size):
    terms = make_sum(groups, size, shape)
    pooled = TanhOfFactoredSum(terms, is_pooled=True, uses_kernel=uses_kernel)
    found = pooled.materialize().double()
    assert found.shape[1:] == pooled.feature_shape
    if found.numel():
        expected = F.avg_pool2d(compute_exactly(terms), 2)
        assert torch.allclose(found, expected, rtol=0, atol=TOLERANCE)


def test_rows_in_any_order_are_computed_in_pieces():
    terms = make_sum()
    mixed = replace(terms, rows=((1, 0), (0, 3), (0, 1), (3, 3), (3, 2), (3, 0), (1, 0)))
    found = TanhOfFactoredSum(mixed, uses_kernel=False).materialize()
    assert torch.allclose(found.double(), compute_exactly(mixed), rtol=0, atol=TOLERANCE)


def test_small_values_keep_their_relative_accuracy_in_pieces():
    terms = make_sum(scale=1e-4)
    found = TanhOfFactoredSum(terms, uses_kernel=False).materialize()
    assert torch.equal(found, torch.tanh(terms.materialize()))


@by_kernel_or_torch
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_special_values_stay_in_their_example(uses_kernel, value, threads):
    terms = make_sum()
    terms.scaled_feature[:, 1, 2, 0, 0, 0] = value
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    found = TanhOfFactoredSum(terms, uses_kernel=uses_kernel).materialize()
    torch.set_num_threads(before)
    expected = torch.tanh(terms.materialize())
    assert torch.allclose(found, expected, rtol=0, atol=TOLERANCE, equal_nan=True)
    assert torch.equal(found.isnan(), expected.isnan())


@pytest.fixture
def for_any_size(monkeypatch):
    monkeypatch.setattr(tanh_of_sum, "FEWEST_VALUES", 1)


@needs_kernels
def test_large_sums_are_computed_by_a_kernel(for_any_size):
    assert try_defer_tanh(make_sum()).uses_kernel


def test_small_sums_are_computed_in_pieces():
    assert not try_defer_tanh(make_sum()).uses_kernel


def test_sums_are_computed_in_pieces_without_kernels(for_any_size):
    with use_torch_instead_of_kernels():
        assert not try_defer_tanh(make_sum()).uses_kernel


@pytest.mark.parametrize(
    "change",
    [
        lambda terms: replace(terms, offset_batch=terms.offset_batch.double()),
        lambda terms: replace(terms, scaled_batch=None),
        lambda terms: replace(terms, scaled_feature=None, offset_feature=None),
        lambda terms: replace(terms, gamma=torch.ones(2, 1, 1)),
        lambda _: make_sum(shape=(20,)),
        lambda _: make_sum(shape=(4, 20)),
    ],
    ids=["double", "no batch", "no feature", "before a layer", "no image", "two axes"],
)
def test_tanh_of_other_sums_is_computed_at_once(change):
    assert try_defer_tanh(change(make_sum())) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda terms: replace(terms, offset_feature=terms.offset_feature[..., :1].expand(-1, -1, -1, -1, -1, 6)),
        lambda terms: replace(terms, offset_batch=terms.offset_batch.clone().requires_grad_()),
        lambda _: make_sum(shape=(2, 3, 5)),
    ],
    ids=["expanded", "gradient", "small channel"],
)
def test_other_images_are_computed_in_pieces(for_any_size, change):
    assert not try_defer_tanh(change(make_sum())).uses_kernel


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
    deferred = TanhOfFactoredSum(make_sum(), uses_kernel=False)
    assert torch.equal(deferred.materialize_tanh(), torch.tanh(deferred.materialize()))
