"""Expected differences of rows against posteriors on a grid, and when a row in use is kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.selection.expected_loss import DifferencePrior


@pytest.mark.parametrize("difference", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("variance", "prior_variance"), [(1.0, 0.5), (0.2, 4.0), (3.0, 1e-3)])
def test_expected_difference_and_harm_are_those_of_the_posterior(difference, variance, prior_variance):
    true = np.linspace(-15, 15, 300_001)
    posterior = stats.norm.pdf(true, scale=prior_variance**0.5) * stats.norm.pdf(difference, true, variance**0.5)
    posterior /= posterior.sum()
    prior = DifferencePrior(prior_variance)
    expected = posterior @ true
    assert prior.expected_difference(difference, variance) == pytest.approx(expected, abs=1e-6)
    for margin in (0.0, 0.1, 0.5):
        harm = posterior[true < -margin].sum()
        assert prior.keeps_row_in_use(difference, variance, margin, 1) == (expected <= margin or harm > 0.1)


def test_prior_variance_is_that_of_the_true_differences():
    """Over many tables, against the mean squared difference of all pairs of true losses."""
    rng = np.random.default_rng(0)
    estimates, expected = [], []
    for _ in range(2_000):
        true = 0.3 * rng.normal(size=12)
        scale = rng.uniform(0.1, 0.3, 12)
        means = true + scale * rng.normal(size=12)
        first, second = np.triu_indices(12, 1)
        variances = scale[first] ** 2 + scale[second] ** 2
        estimates.append(DifferencePrior.estimate(means, variances).variance)
        expected.append(((true[first] - true[second]) ** 2).mean())
    assert np.mean(estimates) == pytest.approx(np.mean(expected), rel=0.02)


@pytest.mark.parametrize("difference", [0.0, 0.5, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("candidates", [1, 2, 16])
def test_without_other_rows_the_pair_estimates_the_prior_as_james_and_stein(difference, candidates):
    """The prior variance of the highest likelihood, for a variance that counts the selection."""
    variance = 1 + np.log(candidates) / 2
    prior = np.linspace(0, 20, 200_001)
    likelihood = stats.norm.logpdf(difference, scale=np.sqrt(prior + variance))
    best = prior[likelihood.argmax()]
    found = DifferencePrior(0.0).expected_difference(difference, 1.0, candidates)
    assert found == pytest.approx(difference * best / (best + 1), abs=1e-3)


@pytest.mark.parametrize(
    ("means", "variances", "difference", "variance", "expected"),
    [
        ([1.0], [], 0.0, 0.0, 0.0),  # one row
        ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], 0.0, 0.0, 0.0),  # equal rows
        ([0.0, 0.1, 0.2], [9.0, 9.0, 9.0], 0.2, 9.0, 0.0),  # noise alone
        ([0.0, 0.1, 0.2], [9.0, 9.0, 9.0], 0.2, 0.0, 0.2),  # a difference without noise is true
        ([0.0, 1e200, 0.0], [1.0, 1.0, 1.0], 1e200, 1.0, 1e200),
    ],
)
def test_extreme_tables(means, variances, difference, variance, expected):
    with np.errstate(over="ignore"):
        prior = DifferencePrior.estimate(np.array(means), np.array(variances))
    found = prior.expected_difference(difference, variance)
    assert math.isfinite(found)
    assert found == pytest.approx(expected)
    assert prior.keeps_row_in_use(difference, variance, 0.01, 1) == (expected <= 0.01)
