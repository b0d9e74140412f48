"""Moderated variances between seeds: against a plain loop, and how often equal rows differ significantly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired.crossed_anova import ContrastVariances
from bln_search.ranking.paired.seed_variances import _BASE_ROWS, _EM_STEPS, _upper_tail, estimate_seed_variances
from tests.ranking.tables import band
from tests.support.tiers import part, thinned

SCALES = {
    "equal": np.ones(16),
    "two groups": np.repeat([1.0, 10.0], 8),
    "one outlier": np.r_[np.ones(15), 30.0],
    "log-normal": np.exp(np.random.default_rng(5).normal(0, 1, 16)),
    "pairs nearly alike": np.repeat([0.05, 0.05, 1.0, 1.0], 4),
}


def test_rows(means):
    """Test all pairs of rows from their means under each seed, (S, R), without variance of examples."""
    pairs = np.triu_indices(means.shape[1], 1)
    differences = means[:, pairs[0]] - means[:, pairs[1]]
    seeds = len(means)
    none = np.zeros(differences.shape[1])
    contrasts = ContrastVariances(
        seeds, differences.mean(axis=0), differences.var(axis=0, ddof=1) / seeds, [(none, 1_000)]
    )
    return pairs, contrasts.test(pairs, means.shape[1])


test_rows.__test__ = False


def draw_means(rng, seeds, scales):
    return rng.normal(size=(seeds, 1)) + scales * rng.normal(size=(seeds, len(scales)))


def weights_by_loop(variances, degrees, pairs, num_rows, grid):
    """The weights, one pair and one variance at a time."""
    likelihood = [
        [stats.chi2.pdf(degrees * s / v, degrees) * degrees * s / v for v in grid] for s in variances
    ]  # density of log s²
    base, share = _BASE_ROWS / len(grid), 2 / num_rows

    def members(prior):
        products = [[value * weight for value, weight in zip(line, prior, strict=True)] for line in likelihood]
        return [[product / math.fsum(line) for product in line] for line in products]

    prior = [base] * len(grid)
    for _ in range(_EM_STEPS):
        of_pairs = members(prior)
        prior = [base + share * math.fsum(line[point] for line in of_pairs) for point in range(len(grid))]
    of_pairs, rows = members(prior), list(zip(*pairs, strict=True))
    weights = []
    for rows_of_pair, line in zip(rows, likelihood, strict=True):
        others = [other for other, names in zip(of_pairs, rows, strict=True) if not set(names) & set(rows_of_pair)]
        products = [
            value * (base + share * math.fsum(other[point] for other in others)) for point, value in enumerate(line)
        ]
        weights.append([product / math.fsum(products) for product in products])
    return np.array(weights)


@pytest.mark.parametrize("seeds", [2, 3, 6])
@pytest.mark.parametrize("rows", [4, 6])
def test_weights_are_those_of_a_plain_loop(seeds, rows):
    means = draw_means(np.random.default_rng(seeds), seeds, np.exp(np.linspace(-2, 2, rows)))
    pairs = np.triu_indices(rows, 1)
    variances = (means[:, pairs[0]] - means[:, pairs[1]]).var(axis=0, ddof=1)
    moderated = estimate_seed_variances(variances, seeds - 1, pairs, rows)
    expected = weights_by_loop(variances, seeds - 1, pairs, rows, moderated.variances)
    np.testing.assert_allclose(moderated.weights, expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("seeds", [3, 5])
def test_figures_are_mixtures_over_the_variances(seeds):
    means = draw_means(np.random.default_rng(1), seeds, SCALES["log-normal"])
    (first, second), found = test_rows(means)
    mean = means[:, first].mean(axis=0) - means[:, second].mean(axis=0)
    variances = (means[:, first] - means[:, second]).var(axis=0, ddof=1) / seeds
    moderated = estimate_seed_variances(variances, seeds - 1, (first, second), 16)
    errors = np.sqrt(moderated.variances)
    tails = stats.norm.sf(np.abs(mean)[:, None] / errors)
    np.testing.assert_allclose(found.p, 2 * (moderated.weights * tails).sum(axis=1), rtol=1e-4)
    outside = 2 * (moderated.weights * stats.norm.sf(found.half[:, None] / errors)).sum(axis=1)
    np.testing.assert_allclose(outside, 0.05, rtol=1e-4)
    assert np.all(found.adjusted >= found.p)
    assert np.all(found.adjusted <= np.minimum(1, 120 * found.p) * (1 + 1e-12))


def test_without_other_rows_it_is_students_t_test():
    rng = np.random.default_rng(0)
    variances = np.array([0.3, 2.0, 0.01])
    moderated = estimate_seed_variances(variances, 2, (np.array([0, 0, 1]), np.array([1, 2, 2])), 3)
    mean = rng.normal(size=3) * 3
    expected = stats.t.sf(np.abs(mean) / np.sqrt(variances), 2) * 2
    np.testing.assert_allclose(moderated.p_values(mean, np.zeros(3), 1_000), expected, rtol=0.02)


@pytest.mark.parametrize("kind", thinned(SCALES, 5, start=3))
def test_equal_rows_seldom_differ(kind):
    rng, tables = np.random.default_rng(3), 300
    alarms = sum(test_rows(draw_means(rng, 3, SCALES[kind]))[1].adjusted.min() < 0.05 for _ in range(tables))
    assert alarms <= band(0.05, tables)[1] * tables


@pytest.mark.parametrize(
    ("kind", "least"),
    part(
        [("equal", 0.9), ("two groups", 0.5), ("one outlier", 0.45), ("log-normal", 0.25), ("pairs nearly alike", 0.5)],
        lambda kind, _: kind == "two groups",
    ),
)
def test_a_row_that_is_worse_is_found_with_three_seeds(kind, least):
    """By five standard deviations of one seed of the pair; Student's t test with Holm's correction finds 2 to 6 %."""
    rng, scales, found = np.random.default_rng(4), SCALES[kind], []
    for _ in range(150):
        worse, other = rng.choice(16, 2, replace=False)
        means = draw_means(rng, 3, scales)
        means[:, worse] += 5 * math.hypot(scales[worse], scales[other])
        (first, second), result = test_rows(means)
        pair = (first == min(worse, other)) & (second == max(worse, other))
        found.append(result.adjusted[pair][0] < 0.05)
    assert np.mean(found) >= least


@pytest.mark.parametrize("gap", [1.0, 5.0, 100.0])
def test_a_corrected_p_value_is_never_below_the_p_value(gap):
    """Also where every pair, or all but one pair, is rejected in the first step."""
    for equal in (0, 2):
        means = np.random.default_rng(3).normal(0, 0.1, (3, 6)) + gap * np.r_[np.zeros(equal), np.arange(6 - equal)]
        _, found = test_rows(means)
        assert np.all(found.adjusted >= found.p)


@pytest.mark.parametrize("far", [1e4, 1e7])
def test_a_row_that_varies_far_more_hardly_changes_the_others(far):
    """As of a network that exploded and is finite still."""
    means = draw_means(np.random.default_rng(0), 3, np.ones(6))
    pairs, alone = test_rows(means)
    beside_pairs, beside = test_rows(np.c_[means, far * draw_means(np.random.default_rng(1), 3, np.ones(1))])
    kept = beside_pairs[1] < 6
    assert list(zip(*(rows[kept] for rows in beside_pairs), strict=True)) == list(zip(*pairs, strict=True))
    np.testing.assert_allclose(beside.half[kept], alone.half, rtol=0.15)


def test_two_seeds_are_not_moderated():
    means = draw_means(np.random.default_rng(0), 2, np.ones(6))
    (first, second), found = test_rows(means)
    np.testing.assert_allclose(found.p, stats.ttest_rel(means[:, first], means[:, second]).pvalue, rtol=1e-6)


def test_many_seeds_keep_their_precision():
    means = draw_means(np.random.default_rng(0), 600, np.ones(6))
    (first, second), found = test_rows(means)
    np.testing.assert_allclose(found.p, stats.ttest_rel(means[:, first], means[:, second]).pvalue, atol=0.02)


@pytest.mark.parametrize(("degrees", "tolerance"), [(3, 1e-12), (99, 1e-12), (1_000, 3e-3), (10_000, 1e-4)])
def test_tails_are_those_of_students_t(degrees, tolerance):
    z = np.linspace(0, 6, 13)
    found = _upper_tail(z, np.full(len(z), float(degrees)))
    np.testing.assert_allclose(found, stats.t.sf(z, degrees), rtol=tolerance)
