"""The crossed analysis against a two-way analysis of variance written out, statsmodels, and Student's test."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.crossed import crossed_differences
from tests.ranking.tables import draw

MODELS = {
    "noise alone": {},
    "seeds": {"of_seed": 1.0},
    "examples": {"of_example": 2.0},
    "both": {"of_seed": 0.5, "of_example": 1.0, "difference": 0.4},
}


def mean_squares(d):
    """Of seeds, examples and the rest, by loops over the definition."""
    seeds, examples = d.shape
    mean = sum(d[s, n] for s in range(seeds) for n in range(examples)) / d.size
    of_seed = [sum(d[s, n] for n in range(examples)) / examples for s in range(seeds)]
    of_example = [sum(d[s, n] for s in range(seeds)) / seeds for n in range(examples)]
    seed = examples * sum((one - mean) ** 2 for one in of_seed) / (seeds - 1)
    example = seeds * sum((one - mean) ** 2 for one in of_example) / (examples - 1)
    rest = sum((d[s, n] - of_seed[s] - of_example[n] + mean) ** 2 for s in range(seeds) for n in range(examples))
    return mean, seed, example, rest / ((seeds - 1) * (examples - 1))


def by_formula(mean, seed, example, rest, seeds, examples):
    """Standard error, degrees of freedom and p, by Satterthwaite's formula."""
    combined = seed + example - rest
    below = seed**2 / (seeds - 1) + example**2 / (examples - 1) + rest**2 / ((seeds - 1) * (examples - 1))
    degrees = max(1.0, combined**2 / below)
    if combined <= max(seed, example):
        combined, degrees = max((seed, seeds - 1.0), (example, examples - 1.0))
    error = math.sqrt(combined / (seeds * examples))
    return error, degrees, 2 * stats.t.sf(abs(mean) / error, degrees)


def differences(made, metric):
    figures = (made.losses if metric == "loss" else made.correct).astype(np.float64)
    first, second = made.pairs
    return [figures[:, i] - figures[:, j] for i, j in zip(first, second, strict=True)]


@pytest.mark.parametrize("metric", ["loss", "accuracy"])
@pytest.mark.parametrize("seeds", [2, 3, 10])
@pytest.mark.parametrize("model", MODELS)
def test_every_figure_is_that_of_the_analysis_written_out(model, seeds, metric):
    made = draw(np.random.default_rng(0), seeds=seeds, rows=3, examples=15, **MODELS[model])
    found = crossed_differences(made, metric)
    for place, d in enumerate(differences(made, metric)):
        mean, *squares = mean_squares(d)
        error, degrees, p = by_formula(mean, *squares, *d.shape)
        assert found.mean[place] == pytest.approx(mean, abs=1e-12)
        assert found.error[place] == pytest.approx(error, rel=1e-9)
        assert found.degrees[place] == pytest.approx(degrees, rel=1e-9)
        assert found.p[place] == pytest.approx(p, rel=1e-8)


def test_both_branches_of_the_variance_are_met_above():
    """Somewhere the three mean squares add up; somewhere the larger one stands for them."""
    branches = set()
    for model in MODELS.values():
        for d in differences(draw(np.random.default_rng(0), seeds=3, rows=3, examples=15, **model), "loss"):
            _, seed, example, rest = mean_squares(d)
            branches.add((seed + example - rest > max(seed, example), seed > example))
    assert len(branches) >= 3


@pytest.mark.parametrize("model", ["both", "seeds"])
def test_mean_squares_and_error_are_those_of_statsmodels(model):
    made = draw(np.random.default_rng(1), seeds=4, rows=2, examples=8, **MODELS[model])
    (d,) = differences(made, "loss")
    frame = pd.DataFrame([(s, n, d[s, n]) for s in range(4) for n in range(8)], columns=["seed", "example", "d"])
    squares = anova_lm(ols("d ~ C(seed) + C(example)", frame).fit(), typ=1)["mean_sq"]
    theirs = [squares["C(seed)"], squares["C(example)"], squares["Residual"]]
    assert mean_squares(d)[1:] == pytest.approx(theirs, rel=1e-9)
    error, degrees, _ = by_formula(d.mean(), *theirs, 4, 8)
    found = crossed_differences(made, "loss")
    assert (found.error[0], found.degrees[0]) == pytest.approx((error, degrees), rel=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(2, 5))
def test_with_one_seed_it_is_students_paired_test_over_examples(random, examples, rows):
    made = draw(np.random.default_rng(random), seeds=1, rows=rows, examples=examples)
    found = crossed_differences(made, "loss")
    first, second = made.pairs
    losses = made.losses[0].astype(np.float64)
    expected = stats.ttest_rel(losses[first], losses[second], axis=1)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert np.all(found.degrees == examples - 1)


@pytest.mark.parametrize("level", [0.0, 1.0, 8.0])
def test_tiny_differences_of_large_losses_are_exact(level):
    """Differences of 1e-6: what single precision keeps of them is compared, and nothing is lost on the way."""
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(4, 1, 500)) + level
    made = OutcomeTable((shared + 1e-6 * rng.normal(size=(4, 3, 500))).astype(np.float32), np.ones((4, 3, 500), bool))
    found = crossed_differences(made, "loss")
    for place, d in enumerate(differences(made, "loss")):
        mean, *squares = _fast_mean_squares(d)
        error, _, p = by_formula(mean, *squares, *d.shape)
        assert found.mean[place] == pytest.approx(mean, rel=1e-6)
        assert found.error[place] == pytest.approx(error, rel=1e-6)
        assert found.p[place] == pytest.approx(p, rel=1e-5)


def test_a_row_far_from_two_close_ones_does_not_blur_them():
    rng = np.random.default_rng(3)
    losses = rng.normal(size=(4, 1, 500)) + np.zeros((1, 3, 1))
    losses[:, 1] += 1e-4 * rng.normal(size=(4, 500))
    losses[:, 2] += 1e3
    made = OutcomeTable(losses.astype(np.float32), np.ones((4, 3, 500), bool))
    mean, *squares = _fast_mean_squares(differences(made, "loss")[0])
    found = crossed_differences(made, "loss")
    assert found.p[0] == pytest.approx(by_formula(mean, *squares, 4, 500)[2], rel=1e-2)


def _fast_mean_squares(d):
    seeds, examples = d.shape
    rest = d - d.mean(0) - d.mean(1, keepdims=True) + d.mean()
    squares = d.mean(1).var(ddof=1) * examples, d.mean(0).var(ddof=1) * seeds
    return d.mean(), *squares, (rest**2).sum() / ((seeds - 1) * (examples - 1))


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("metric", ["loss", "accuracy"])
def test_identical_rows_have_p_one(seeds, metric):
    losses = np.repeat(np.random.default_rng(4).normal(size=(seeds, 1, 40)), 3, axis=1).astype(np.float32)
    found = crossed_differences(OutcomeTable(losses, losses < 0), metric)
    assert np.all(found.mean == 0)
    assert np.all(found.p == 1)


def test_a_difference_that_never_varies_is_certain():
    losses = np.zeros((3, 2, 10), np.float32)
    losses[:, 1] = 0.5
    found = crossed_differences(OutcomeTable(losses, losses < 0.1), "loss")
    assert (found.mean.item(), found.p.item()) == (-0.5, 0.0)


def test_rows_exchanged_change_the_sign_alone():
    made = draw(np.random.default_rng(5), rows=2, of_seed=0.3, of_example=0.5)
    one, other = crossed_differences(made, "loss"), crossed_differences(made.chosen([1, 0]), "loss")
    assert one.mean == pytest.approx(-other.mean)
    assert one.p == pytest.approx(other.p)
