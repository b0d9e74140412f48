"""The crossed analysis against an explicit two-way ANOVA, statsmodels, and Student's test."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.crossed_anova import _squared_half_widths, two_sided_p_values
from tests.ranking.tables import compare_all_pairs, draw

MODELS = {
    "noise alone": {},
    "seeds": {"of_seed": 1.0},
    "examples": {"of_example": 2.0},
    "both": {"of_seed": 0.5, "of_example": 1.0, "difference": 0.4},
}


def mean_squares(difference):
    """Of seeds, examples and the rest, by loops over the definition."""
    seeds, examples = difference.shape
    mean = sum(difference[s, n] for s in range(seeds) for n in range(examples)) / difference.size
    of_seed = [sum(difference[s, n] for n in range(examples)) / examples for s in range(seeds)]
    of_example = [sum(difference[s, n] for s in range(seeds)) / seeds for n in range(examples)]
    seed = examples * sum((effect - mean) ** 2 for effect in of_seed) / (seeds - 1)
    example = seeds * sum((effect - mean) ** 2 for effect in of_example) / (examples - 1)
    residual = sum(
        (difference[s, n] - of_seed[s] - of_example[n] + mean) ** 2 for s in range(seeds) for n in range(examples)
    )
    return mean, seed, example, residual / ((seeds - 1) * (examples - 1))


def by_formula(mean, seed, example, residual, seeds, examples):
    """Half of the 95 % interval and p, by Banerjee's formula; p by a root finder."""

    def reach(p):
        of_seed, of_example = stats.t.isf(p / 2, seeds - 1), stats.t.isf(p / 2, examples - 1)
        return math.sqrt((of_seed**2 * seed + of_example**2 * max(example - residual, 0.0)) / (seeds * examples))

    return reach(0.05), optimize.brentq(lambda p: reach(p) - abs(mean), 1e-30, 1.0, xtol=1e-300, rtol=1e-12)


def differences(table, metric):
    figures = (table.losses if metric == "loss" else table.correct).astype(np.float64)
    first, second = table.row_pairs
    return [figures[:, row] - figures[:, other_row] for row, other_row in zip(first, second, strict=True)]


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
@pytest.mark.parametrize("seeds", [2, 3, 10])
@pytest.mark.parametrize("model", MODELS)
def test_differences_equal_an_explicit_anova(model, seeds, metric):
    outcome_table = draw(np.random.default_rng(0), seeds=seeds, rows=3, examples=15, **MODELS[model])
    crossed = compare_all_pairs(outcome_table, metric)
    for pair, difference in enumerate(differences(outcome_table, metric)):
        mean, of_seed, of_example, residual = mean_squares(difference)
        half, p = by_formula(
            mean, max(of_seed, residual) if metric == "accuracy" else of_seed, of_example, residual, *difference.shape
        )
        assert crossed.mean[pair] == pytest.approx(mean, abs=1e-12)
        assert crossed.half[pair] == pytest.approx(half, rel=1e-9)
        assert crossed.p[pair] == pytest.approx(p, rel=1e-8)


@pytest.mark.parametrize("far", [1e4, 1e7])
@pytest.mark.parametrize("column", [0, 2])
def test_distant_row_does_not_change_other_pairs(far, column):
    """As of a network that exploded and is finite still. Sums of products would lose all digits of the others."""
    outcome_table = draw(np.random.default_rng(0), seeds=3, rows=2, of_example=1.0)
    crossed = compare_all_pairs(outcome_table, "loss")
    losses = np.insert(outcome_table.losses, column, far * (1 + outcome_table.losses[:, 0] ** 2), axis=1)
    beside = OutcomeTable(losses, losses < 0)
    kept_pairs = [index for index, pair in enumerate(zip(*beside.row_pairs, strict=True)) if column not in pair]
    for first_result, second_result in zip(
        astuple(crossed)[:3], astuple(compare_all_pairs(beside, "loss"))[:3], strict=True
    ):
        np.testing.assert_allclose(second_result[kept_pairs], first_result, rtol=1e-12)


def test_chunked_pairs_equal_single_pairs(monkeypatch):
    outcome_table = draw(np.random.default_rng(0), seeds=3, rows=5, of_seed=0.5)
    all_pairs = compare_all_pairs(outcome_table, "loss")
    monkeypatch.setattr("bln_search.ranking.paired.crossed_anova._MAX_DIFFERENCES_IN_MEMORY", 1)
    single_chunks = compare_all_pairs(outcome_table, "loss")
    np.testing.assert_array_equal(single_chunks.mean, all_pairs.mean)
    np.testing.assert_allclose(single_chunks.p, all_pairs.p, rtol=1e-12)


@given(st.floats(-8, 0), st.integers(2, 12), st.integers(2, 5_000), st.floats(0.01, 100), st.floats(0, 100))
def test_p_is_the_level_whose_interval_reaches_zero(level, seeds, examples, of_seed, of_example):
    p = np.array([10.0**level])
    parts = [(np.array([of_seed]), seeds - 1), (np.array([of_example]), examples - 1)]
    mean = np.sqrt(_squared_half_widths(p, parts))
    assert two_sided_p_values(mean, parts) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("model", ["both", "seeds"])
def test_mean_squares_equal_statsmodels(model):
    outcome_table = draw(np.random.default_rng(1), seeds=4, rows=2, examples=8, **MODELS[model])
    (difference,) = differences(outcome_table, "loss")
    frame = pd.DataFrame(
        [(seed, n, difference[seed, n]) for seed in range(4) for n in range(8)], columns=["seed", "example", "d"]
    )
    squares = anova_lm(ols("d ~ C(seed) + C(example)", frame).fit(), typ=1)["mean_sq"]
    expected = [squares["C(seed)"], squares["C(example)"], squares["Residual"]]
    assert mean_squares(difference)[1:] == pytest.approx(expected, rel=1e-9)
    crossed = compare_all_pairs(outcome_table, "loss")
    assert (crossed.half[0], crossed.p[0]) == pytest.approx(by_formula(difference.mean(), *expected, 4, 8), rel=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(2, 5))
def test_one_seed_gives_students_paired_t_test(random, examples, rows):
    outcome_table = draw(np.random.default_rng(random), seeds=1, rows=rows, examples=examples)
    crossed = compare_all_pairs(outcome_table, "loss")
    first, second = outcome_table.row_pairs
    losses = outcome_table.losses[0].astype(np.float64)
    expected = stats.ttest_rel(losses[first], losses[second], axis=1)
    assert crossed.p == pytest.approx(expected.pvalue, rel=1e-6)
    expected_half = stats.t.ppf(0.975, examples - 1) * stats.sem(losses[first] - losses[second], axis=1)
    assert crossed.half == pytest.approx(expected_half, rel=1e-6)


@pytest.mark.parametrize("level", [0.0, 1.0, 8.0])
def test_tiny_differences_of_large_losses_are_exact(level):
    """Differences of 1e-3: what single precision keeps of them is compared, and nothing is lost on the way."""
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(4, 1, 500)) + level
    outcome_table = OutcomeTable(
        (shared + 1e-3 * rng.normal(size=(4, 3, 500))).astype(np.float32), np.ones((4, 3, 500), bool)
    )
    crossed = compare_all_pairs(outcome_table, "loss")
    for pair, difference in enumerate(differences(outcome_table, "loss")):
        mean, *squares = _fast_mean_squares(difference)
        half, p = by_formula(mean, *squares, *difference.shape)
        assert crossed.mean[pair] == pytest.approx(mean, rel=1e-6)
        assert crossed.half[pair] == pytest.approx(half, rel=1e-6)
        assert crossed.p[pair] == pytest.approx(p, rel=1e-5)


def _fast_mean_squares(difference):
    seeds, examples = difference.shape
    residual = difference - difference.mean(0) - difference.mean(1, keepdims=True) + difference.mean()
    squares = difference.mean(1).var(ddof=1) * examples, difference.mean(0).var(ddof=1) * seeds
    return difference.mean(), *squares, (residual**2).sum() / ((seeds - 1) * (examples - 1))


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_identical_rows_have_p_one(seeds, metric):
    losses = np.repeat(np.random.default_rng(4).normal(size=(seeds, 1, 40)), 3, axis=1).astype(np.float32)
    crossed = compare_all_pairs(OutcomeTable(losses, losses < 0), metric)
    assert np.all(crossed.mean == 0)
    assert np.all(crossed.p == 1)


def test_a_difference_that_never_varies_is_certain():
    losses = np.zeros((3, 2, 10), np.float32)
    losses[:, 1] = 0.5
    crossed = compare_all_pairs(OutcomeTable(losses, losses < 0.1), "loss")
    assert (crossed.mean.item(), crossed.p.item()) == (-0.5, 0.0)
