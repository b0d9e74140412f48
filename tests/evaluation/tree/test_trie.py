"""The prefix tree holds every configuration once, in the order of the indices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bln_search.evaluation.tree.trie import (
    build_configuration_trie,
    digits_of_all_configurations,
    sorted_unique_configurations_with_inverse,
)
from tests.support.per_layer_spaces import spaces


@st.composite
def spaces_with_digits(draw):
    """Draw a space and some of its configurations, with repetitions."""
    space = draw(spaces())
    indices = draw(st.lists(st.integers(0, space.num_configurations - 1), min_size=1, max_size=40))
    return space, np.array([space.choice_digits_at_index(index) for index in indices], np.uint8)


def leaves(trie, depth=0, node=0):
    """Return the digits of every path from a node to a leaf, depth first."""
    if depth == len(trie.nodes):
        return [()]
    start, stop = trie.children[depth][node : node + 2]
    return [
        (int(trie.nodes[depth][child]), *rest)
        for child in range(start, stop)
        for rest in leaves(trie, depth + 1, child)
    ]


@given(spaces_with_digits())
def test_paths_are_exactly_the_configurations(space_and_digits):
    space, digits = space_and_digits
    unique, inverse = sorted_unique_configurations_with_inverse(digits)
    trie = build_configuration_trie(unique)
    assert leaves(trie) == [tuple(row) for row in unique.tolist()]
    np.testing.assert_array_equal(unique[inverse], digits)
    indices = [space.index_of_choice_digits(row.tolist()) for row in unique]
    assert indices == sorted(set(indices))


@given(spaces_with_digits())
def test_children_partition_the_nodes_of_the_next_depth(space_and_digits):
    _, digits = space_and_digits
    trie = build_configuration_trie(sorted_unique_configurations_with_inverse(digits)[0])
    num_nodes = 1
    for depth, children in enumerate(trie.children):
        assert len(children) == num_nodes + 1
        assert (np.diff(children) > 0).all()
        assert (children[0], children[-1]) == (0, len(trie.nodes[depth]))
        num_nodes = len(trie.nodes[depth])
        prefixes = trie.digits[trie.first_configuration_of_nodes[depth], : depth + 1]
        assert len(np.unique(prefixes, axis=0)) == len(prefixes) == num_nodes
        np.testing.assert_array_equal(prefixes[:, depth], trie.nodes[depth])
    assert num_nodes == len(trie)


@given(spaces())
def test_all_digits_are_in_the_order_of_their_indices(space):
    if space.num_configurations > 5_000:
        return
    digits = digits_of_all_configurations(space)
    assert [tuple(row) for row in digits.tolist()] == [
        space.choice_digits_at_index(index) for index in range(space.num_configurations)
    ]
