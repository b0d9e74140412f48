"""Expected differences of rows against posteriors on a grid, and when a row in use is kept."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.compare import compare_with_best
from bln_search.ranking.paired.difference_prior import estimate_difference_prior
from bln_search.ranking.selection.expected_loss import DifferencePrior, may_replace


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


def draw_means(rng, rows=150):
    """Means with a standard deviation of 0.3 between rows and 0.2 of noise; the variance of a difference."""
    return 0.3 * rng.normal(size=rows) + 0.2 * rng.normal(size=rows), np.array([2 * 0.2**2])


def test_prior_variance_is_that_of_true_differences_also_beside_a_diverged_row():
    rng = np.random.default_rng(0)
    tables = [draw_means(rng) for _ in range(100)]
    estimates = [estimate_difference_prior(*table).variance for table in tables]
    assert np.mean(estimates) == pytest.approx(2 * 0.3**2, rel=0.03)
    diverged = [estimate_difference_prior(np.append(means, 1e6), variances).variance for means, variances in tables]
    assert np.mean(diverged) == pytest.approx(2 * 0.3**2, rel=0.06)


@pytest.mark.parametrize(("rows", "tolerance"), [(8, 1e-6), (60, 0.1)])
@pytest.mark.parametrize("over_seeds", [False, True])
def test_prior_of_a_comparison_is_estimated_from_pairs_of_rows(rows, tolerance, over_seeds):
    """Against a loop over all pairs; of more than 48 rows the noise is that of a random sample of pairs."""
    rng = np.random.default_rng(rows)
    losses = (
        0.5 * rng.normal(size=rows)[:, None] + 0.5 * rng.normal(size=(3, rows, 200)) + rng.normal(size=(3, rows, 1))
    )
    table = OutcomeTable(losses.astype(np.float32), np.ones(losses.shape, bool))
    compared = compare_with_best(table, over_seeds=over_seeds)
    if not over_seeds:
        losses = losses.mean(axis=0, keepdims=True)
    squares, variances = [], []
    for first, second in itertools.combinations(range(rows), 2):
        difference = losses[:, first] - losses[:, second]
        squares.append(difference.mean() ** 2)
        of_seeds = difference.mean(axis=1).var(ddof=1) / 3 if over_seeds else 0
        of_examples = difference.mean(axis=0).var(ddof=1) / 200
        residual = difference - difference.mean(axis=1, keepdims=True) - difference.mean(axis=0) + difference.mean()
        noise = (residual**2).sum() / (2 * 199) / 600 if over_seeds else 0
        variances.append(of_seeds + max(of_examples - noise, 0))
    expected = np.median(squares) / stats.norm.ppf(0.75) ** 2 - np.mean(variances)
    assert compared.differences.prior.variance == pytest.approx(max(0.0, expected), rel=tolerance, abs=1e-9)


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
        prior = estimate_difference_prior(np.array(means), np.array(variances))
    found = prior.expected_difference(difference, variance)
    assert math.isfinite(found)
    assert found == pytest.approx(expected)
    assert prior.keeps_row_in_use(difference, variance, 0.01, 1) == (expected <= 0.01)


@pytest.mark.parametrize("gain", [-0.01, 0.0, 0.02, 0.03, 0.05])
def test_another_row_than_the_best_replaces_the_row_in_use_if_harm_is_improbable(gain):
    """Standard deviations add up in the worst case: 0.02 + 0.01."""
    harm = stats.norm(gain, 0.03).cdf(-0.01)
    assert may_replace(gain, (4e-4, 1e-4), 0.01) is (gain > 0 and bool(harm <= 0.1))
