"""Letters and rank intervals against their definitions and the maximal cliques of networkx."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from bln_search.ranking.statistics.letter_display import (
    compact_letter_display,
    groups_without_difference,
    rank_interval_of_each_row,
)


@st.composite
def rows_and_pairs(draw, max_rows=9):
    """A number of rows and any set of pairs of them."""
    rows = draw(st.integers(1, max_rows))
    pairs = list(combinations(range(rows), 2))
    return rows, draw(st.sets(st.sampled_from(pairs))) if pairs else set()


LAW = settings(max_examples=60)


@LAW
@given(rows_and_pairs())
def test_rows_share_a_letter_unless_significantly_different(case):
    rows, different_pairs = case
    letters = compact_letter_display(rows, different_pairs)
    for pair in combinations(range(rows), 2):
        assert bool(set(letters[pair[0]]) & set(letters[pair[1]])) == (pair not in different_pairs)


@LAW
@given(rows_and_pairs())
def test_every_row_has_a_letter_and_the_best_has_the_first(case):
    letters = compact_letter_display(*case)
    assert all(letters)
    assert letters[0].startswith("a")


@LAW
@given(rows_and_pairs())
def test_groups_are_maximal_cliques(case):
    rows, different_pairs = case
    graph = nx.Graph(pair for pair in combinations(range(rows), 2) if pair not in different_pairs)
    graph.add_nodes_from(range(rows))
    groups = groups_without_difference(rows, different_pairs)
    assert len(groups) == len(set(groups))
    assert set(groups) == {frozenset(clique) for clique in nx.find_cliques(graph)}
    assert groups == sorted(groups, key=sorted)


@LAW
@given(rows_and_pairs())
def test_groups_are_maximal(case):
    rows, different_pairs = case
    for group in groups_without_difference(rows, different_pairs):
        for row in set(range(rows)) - group:
            assert any(tuple(sorted((row, member))) in different_pairs for member in group)


@LAW
@given(rows_and_pairs())
def test_rank_intervals_count_significant_differences(case):
    rows, different_pairs = case
    for row, (lowest, highest) in enumerate(rank_interval_of_each_row(rows, different_pairs)):
        better = sum(1 for other_row in range(row) if (other_row, row) in different_pairs)
        worse = sum(1 for other_row in range(row + 1, rows) if (row, other_row) in different_pairs)
        assert (lowest, highest) == (better + 1, rows - worse)
        assert lowest <= row + 1 <= highest


def test_chain_of_rows_shares_letters_with_neighbours():
    assert compact_letter_display(4, {(0, 2), (0, 3), (1, 3)}) == ["a", "ab", "bc", "c"]


def test_extreme_cases_have_one_letter_or_one_each():
    assert compact_letter_display(3, set()) == ["a", "a", "a"]
    assert compact_letter_display(3, set(combinations(range(3), 2))) == ["a", "b", "c"]
    assert compact_letter_display(0, set()) == []


def test_after_z_groups_are_numbered():
    letters = compact_letter_display(28, set(combinations(range(28), 2)))
    assert letters[25:] == ["z", "(27)", "(28)"]


def test_too_many_groups_have_no_letters():
    """Each of several disjoint different pairs doubles the groups: eight give 256, nine 512."""
    assert len(groups_without_difference(16, {(2 * pair, 2 * pair + 1) for pair in range(8)})) == 256
    assert groups_without_difference(18, {(2 * pair, 2 * pair + 1) for pair in range(9)}) is None
    assert compact_letter_display(18, {(2 * pair, 2 * pair + 1) for pair in range(9)}) is None
