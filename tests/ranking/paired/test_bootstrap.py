"""Bootstrap intervals of differences: shape of the draws, width of the crossed analysis of variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired.bootstrap import (
    bootstrap_row_means,
    bootstrap_shaped_difference_intervals,
    first_place_share_of_each_row,
)
from bln_search.ranking.paired.crossed_anova import crossed_anova_differences
from tests.ranking.tables import draw


def intervals(seeds):
    """The bootstrap means, the crossed differences, and the ends of the intervals, of six pairs."""
    table = draw(np.random.default_rng(seeds), seeds=seeds, rows=4, of_seed=0.3, skewed=True, difference=0.2)
    (means,) = bootstrap_row_means(table, "loss", draws=300)
    differences = crossed_anova_differences(table, "loss")
    low, high = bootstrap_shaped_difference_intervals(means, differences, table.row_pairs, seeds)
    return table, means, differences, low, high


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_intervals_of_few_seeds_are_symmetric(seeds):
    _, _, differences, low, high = intervals(seeds)
    assert (differences.half > 0).all()
    np.testing.assert_allclose(low, differences.mean - differences.half, rtol=1e-12)
    np.testing.assert_allclose(high, differences.mean + differences.half, rtol=1e-12)


@pytest.mark.parametrize("seeds", [5, 8])
def test_intervals_have_the_quantiles_of_the_draws(seeds):
    """Stretched so that normal draws would have the half-width of the analysis of variance."""
    table, means, differences, low, high = intervals(seeds)
    for index, (first, second) in enumerate(zip(*table.row_pairs, strict=True)):
        drawn = means.drawn[:, first] - means.drawn[:, second]
        deviations = (drawn - drawn.mean()) / drawn.std() * differences.half[index] / stats.norm.ppf(0.975)
        expected = differences.mean[index] + np.quantile(deviations, [0.025, 0.975])
        assert (low[index], high[index]) == pytest.approx(tuple(expected), rel=1e-9)


def test_draws_of_equal_rows_have_an_interval_of_no_width():
    table = draw(np.random.default_rng(0), seeds=6, rows=1)
    equal = table.restrict_to_rows([0, 0])
    (means,) = bootstrap_row_means(equal, "loss", draws=50)
    low, high = bootstrap_shaped_difference_intervals(
        means, crossed_anova_differences(equal, "loss"), equal.row_pairs, 6
    )
    assert (low.tolist(), high.tolist()) == ([0.0], [0.0])
    assert first_place_share_of_each_row(means).tolist() == [0.5, 0.5]
