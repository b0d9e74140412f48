"""Friedman's test against SciPy; Nemenyi's critical difference against published tables and scikit-posthocs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired.friedman import friedman_test

PRINTED = {3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
"""q at 5 %, Demšar 2006, table 5a."""


def means(seeds, rows, random=0, difference=0.0):
    return np.random.default_rng(random).normal(size=(seeds, rows)) + difference * np.arange(rows)


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize(("seeds", "rows"), [(2, 3), (3, 16), (10, 6)])
def test_statistic_and_p_equal_scipy_with_ties(seeds, rows, steps):
    mean_losses = means(seeds, rows, difference=0.2)
    mean_losses = mean_losses if steps is None else np.round(mean_losses * steps) / steps
    mean_ranks = friedman_test(mean_losses)
    expected = stats.friedmanchisquare(*mean_losses.T)
    assert (mean_ranks.statistic, mean_ranks.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)
    assert mean_ranks.ranks == pytest.approx(
        np.mean([stats.rankdata(row_losses) for row_losses in mean_losses], axis=0)
    )


@pytest.mark.parametrize("rows", range(3, 11))
def test_critical_difference_uses_the_published_quantiles(rows):
    critical_difference = friedman_test(means(14, rows)).critical_difference
    assert critical_difference / np.sqrt(rows * (rows + 1) / (6 * 14)) == pytest.approx(PRINTED[rows], abs=1.1e-3)


def test_critical_difference_of_demsar_is_reproduced():
    """Demšar 2006, section 3.2.2: q = 2.569, CD = 1.25; his mean ranks give Friedman's statistic 9.28."""
    assert friedman_test(means(14, 4)).critical_difference == pytest.approx(1.25, abs=0.005)
    ranks = np.array([3.143, 2.000, 2.893, 1.964])
    assert 12 * 14 / (4 * 5) * ((ranks**2).sum() - 4 * 25 / 4) == pytest.approx(9.28, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("random", range(6))
def test_significant_pairs_equal_scikit_posthocs(random):
    import scikit_posthocs  # it loads matplotlib

    mean_losses = means(8, 5, random, difference=1.0)
    mean_ranks = friedman_test(mean_losses)
    is_significant = np.abs(mean_ranks.ranks[:, None] - mean_ranks.ranks) > mean_ranks.critical_difference
    expected_p = scikit_posthocs.posthoc_nemenyi_friedman(mean_losses).to_numpy()
    assert np.array_equal(is_significant, expected_p < 0.05)
    assert is_significant.any()


def test_rows_equal_in_every_seed_do_not_differ():
    mean_losses = np.repeat(means(4, 1), 3, axis=1)
    mean_ranks = friedman_test(mean_losses)
    assert (mean_ranks.statistic, mean_ranks.p) == (0, 1)
    assert mean_ranks.ranks.tolist() == [2, 2, 2]


@pytest.mark.parametrize(("seeds", "rows"), [(1, 5), (5, 2), (1, 1)])
def test_friedman_needs_two_seeds_and_three_rows(seeds, rows):
    assert friedman_test(means(seeds, rows)) is None
