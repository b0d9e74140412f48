"""The cache keeps the activations used last, and returns them for prefixes that all configurations share."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.evaluation.tree.prefix_cache import ActivationPrefixCache, CachedActivations
from bln_search.evaluation.tree.trie import build_configuration_trie

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


@pytest.mark.parametrize(("segment", "expected"), [(1, 0.0), (2, 0.0), (3, 1.0)])
def test_only_a_later_segment_replaces_an_entry(segment, expected):
    cache = ActivationPrefixCache(2 * BYTES)
    cache.put_unless_later_segment_is_cached(key(0), activations(segment=2, value=0.0))
    cache.put_unless_later_segment_is_cached(key(0), activations(segment=segment, value=1.0))
    assert cache.find(key(0)).values[0][0] == expected
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


def test_the_longest_prefix_is_one_that_all_configurations_share():
    view = ActivationPrefixCache(10 * BYTES).view_of_group("group")
    trie = build_configuration_trie(np.array([[0, 1, 0], [0, 1, 1], [0, 2, 0]], np.uint8))
    one_branch = build_configuration_trie(trie.digits[:2])
    one_configuration = build_configuration_trie(trie.digits[:1])
    assert view.find_activations_of_longest_prefix(trie) is None
    view.put_node(1, 0, trie, 0, activations().values)
    assert view.find_activations_of_longest_prefix(trie).depth == 0
    for depth in (1, 2, 3):
        view.put_node(depth + 1, depth, trie, 0, activations().values)
    assert [view.find_activations_of_longest_prefix(part).depth for part in (trie, one_branch, one_configuration)] == [
        1,
        2,
        3,
    ]
    assert [prefix for prefix in ((), (0,), (0, 1), (0, 1, 0), (0, 1, 1), (0, 2), (1,)) if view.has_prefix(prefix)] == [
        (),
        (0,),
        (0, 1),
        (0, 1, 0),
    ]


def test_nodes_and_groups_have_their_own_entries():
    cache = ActivationPrefixCache(10 * BYTES)
    view = cache.view_of_group("group")
    trie = build_configuration_trie(np.array([[0, 1, 0], [0, 1, 1], [0, 2, 0]], np.uint8))
    view.put_node(3, 2, trie, 1, activations().values)
    assert view.has_prefix((0, 2))
    assert not view.has_prefix((0, 1))
    assert not cache.view_of_group("other group").has_prefix((0, 2))
