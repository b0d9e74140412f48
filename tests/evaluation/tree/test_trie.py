"""The tree holds every configuration once, in the order of the indices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bln_search.evaluation.tree.trie import all_digits, build_trie, unique_rows
from tests.support.per_layer_spaces import spaces


@st.composite
def chosen(draw):
    """Some configurations of a space, some of them more than once."""
    space = draw(spaces())
    indices = draw(st.lists(st.integers(0, space.size - 1), min_size=1, max_size=40))
    return space, np.array([space.digits_at(index) for index in indices], np.uint8)


def leaves(trie, depth=0, node=0):
    """The digits of every path from a node down, in the order in which they are walked."""
    if depth == len(trie.nodes):
        return [()]
    start, stop = trie.children[depth][node : node + 2]
    return [
        (int(trie.nodes[depth][child]), *rest)
        for child in range(start, stop)
        for rest in leaves(trie, depth + 1, child)
    ]


@given(chosen())
def test_paths_are_exactly_the_configurations(made):
    space, digits = made
    found, places = unique_rows(digits)
    trie = build_trie(found)
    assert leaves(trie) == [tuple(row) for row in found.tolist()]
    np.testing.assert_array_equal(found[places], digits)
    indices = [space.index(row.tolist()) for row in found]
    assert indices == sorted(set(indices))


@given(chosen())
def test_children_part_the_nodes_below_and_first_is_a_configuration_with_that_beginning(made):
    _, digits = made
    trie = build_trie(unique_rows(digits)[0])
    nodes = 1
    for depth, children in enumerate(trie.children):
        assert len(children) == nodes + 1
        assert (np.diff(children) > 0).all()
        assert (children[0], children[-1]) == (0, len(trie.nodes[depth]))
        nodes = len(trie.nodes[depth])
        beginnings = trie.digits[trie.first[depth], : depth + 1]
        assert len(np.unique(beginnings, axis=0)) == len(beginnings) == nodes
        np.testing.assert_array_equal(beginnings[:, depth], trie.nodes[depth])
    assert nodes == len(trie)


@given(spaces())
def test_every_configuration_stands_at_its_index(space):
    if space.size > 5_000:
        return
    every = all_digits(space)
    assert [tuple(row) for row in every.tolist()] == [space.digits_at(index) for index in range(space.size)]
