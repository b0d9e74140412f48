"""The cache keeps the activations used last, and returns them for prefixes that all configurations share."""

from __future__ import annotations

import torch

from bln_search.evaluation.tree.prefix_cache import ActivationPrefixCache, CachedActivations

BYTES = 40
"""Of the activations of a test."""


def activations(segment=1, depth=1, value=0.0, copies=1):
    return CachedActivations(segment, depth, [torch.full((10 * copies,), value), 7])


def key(digit):
    return "group", 1, (digit,)


def test_entries_used_least_recently_are_dropped_at_the_limit():
    cache = ActivationPrefixCache(3 * BYTES)
    for digit in range(3):
        cache.put_unless_later_segment_is_cached(key(digit), activations())
    assert all(cache.find(key(digit)) is not None for digit in (2, 1, 0))
    cache.put_unless_later_segment_is_cached(key(3), activations())
    assert [digit for digit in range(4) if cache.find(key(digit)) is not None] == [0, 1, 3]
    assert cache.size == 3 * BYTES
    cache.put_unless_later_segment_is_cached(key(4), activations(copies=2))
    assert [digit for digit in range(5) if cache.find(key(digit)) is not None] == [3, 4]
    assert cache.size == 3 * BYTES


def test_an_entry_above_the_limit_is_not_stored():
    cache = ActivationPrefixCache(2 * BYTES)
    cache.put_unless_later_segment_is_cached(key(0), activations())
    cache.put_unless_later_segment_is_cached(key(1), activations(copies=3))
    assert cache.find(key(0)) is not None
    assert cache.find(key(1)) is None
    assert cache.size == BYTES


def test_values_are_copied_in_and_out():
    cache = ActivationPrefixCache(BYTES)
    original = activations()
    cache.put_unless_later_segment_is_cached(key(0), original)
    original.values[0].add_(1)
    values = cache.find(key(0)).copy_values()
    values[0].add_(1)
    assert cache.find(key(0)).values[0].sum() == 0
    assert values[1] == 7
