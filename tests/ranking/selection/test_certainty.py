"""How certain the best row is, on a scale of three steps."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.ranking.paired import compare_all_pairs_of_rows
from bln_search.ranking.selection.certainty import (
    LIKELY_SHARE,
    Certainty,
    assess_certainty_of_best_row,
    find_num_additional_seeds,
)
from bln_search.ranking.selection.recommendation import recommend_row
from tests.ranking.tables import ROWS, draw

LIKELY_DIFFERENCE = 0.1
"""Mean difference for which the first row is ahead in most draws, but not significantly."""


def comparison_of(difference, seeds=5, of_seed=0.3, rows=2):
    table = draw(np.random.default_rng(1), rows=rows, seeds=seeds, of_seed=of_seed, examples=60, difference=difference)
    return compare_all_pairs_of_rows(ROWS[:rows], table, Split.VALIDATION)


def certainty_of(comparison):
    return assess_certainty_of_best_row(recommend_row(comparison, {}), comparison)


def test_significantly_better_than_every_row_is_clear():
    assert certainty_of(comparison_of(20.0)) is Certainty.CLEAR


def test_first_in_most_draws_without_significance_is_likely():
    comparison = comparison_of(LIKELY_DIFFERENCE)
    assert len(comparison.top_group) == 2
    assert comparison.rows[0].first_share >= LIKELY_SHARE
    assert certainty_of(comparison) is Certainty.LIKELY


@pytest.mark.parametrize(("difference", "seeds"), [(0.0, 5), (20.0, 1)], ids=["equal means", "one seed"])
def test_otherwise_it_is_undecided(difference, seeds):
    assert certainty_of(comparison_of(difference, seeds)) is Certainty.UNDECIDED


def test_additional_seeds_are_the_required_ones_less_the_present_ones():
    comparison = comparison_of(LIKELY_DIFFERENCE)
    assert comparison.required_seeds.seeds > 5
    assert find_num_additional_seeds(comparison) == comparison.required_seeds.seeds - 5


def test_no_number_of_seeds_where_the_first_row_is_clear():
    assert find_num_additional_seeds(comparison_of(20.0)) is None
