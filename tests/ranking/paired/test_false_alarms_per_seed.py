"""Levels of the tests within one seed, and the power of the crossed test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.crossed_anova import crossed_anova_differences
from bln_search.ranking.paired.per_seed_tests import mcnemar_p_values, permutation_p_values, wilcoxon_p_values
from tests.ranking.tables import band, draw

ALPHA = 0.05
MANY = 2_000
"""Repetitions of tests that take a table of so many seeds at once."""


def repeated(examples, difference=0.0, repetitions=MANY):
    """One table whose seeds are the repetitions: each has examples of its own."""
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(repetitions, 1, examples)) + rng.normal(size=(repetitions, 2, examples))
    losses[:, 1] += difference
    return OutcomeTable(losses.astype(np.float32), losses < 0)


def mcnemar_rate(one_alone, other_alone, examples):
    """How often the exact test rings: over all counts of examples that one row alone gets right."""
    rejections = 0.0
    either = one_alone + other_alone
    for count in range(examples + 1):
        rings = [stats.binomtest(successes, count).pvalue < ALPHA if count else False for successes in range(count + 1)]
        inside = stats.binom.pmf(np.arange(count + 1), count, one_alone / either) @ np.array(rings, float)
        rejections += stats.binom.pmf(count, examples, either) * inside
    return rejections


def exclusive_chances(difference):
    """Chance that an example is right in the first row alone and in the second alone."""
    both_wrong = stats.multivariate_normal([0.0, difference], [[2, 1], [1, 2]]).cdf(np.zeros(2))
    return stats.norm.cdf(0) - both_wrong, stats.norm.cdf(-difference / np.sqrt(2)) - both_wrong


@pytest.mark.parametrize("difference", [0.0, 0.5, 1.0])
def test_mcnemar_has_the_exact_binomial_level(difference):
    """Less than its level where there is no difference, as it is exact; else its power."""
    expected = mcnemar_rate(*exclusive_chances(difference), 40)
    outcome_tables = repeated(40, difference)
    low, top = band(expected, MANY)
    assert low <= np.mean(mcnemar_p_values(outcome_tables) < ALPHA) <= top
    assert expected < ALPHA or difference > 0


@pytest.mark.parametrize(("examples", "repetitions"), [(30, 600), (60, MANY), (300, MANY)])
def test_wilcoxon_keeps_its_level(examples, repetitions):
    rate = np.mean(wilcoxon_p_values(repeated(examples, repetitions=repetitions)) < ALPHA)
    low, top = band(0.05, repetitions)
    assert low <= rate <= top


def test_wilcoxon_keeps_its_level_where_losses_are_tied():
    outcome_tables = repeated(100)
    low, top = band(0.05, MANY)
    tied = OutcomeTable(np.round(outcome_tables.losses), outcome_tables.correct)
    assert (tied.losses[:, 0] == tied.losses[:, 1]).mean() > 0.2
    assert low <= np.mean(wilcoxon_p_values(tied) < ALPHA) <= top


@pytest.mark.parametrize("noise", ["normal", "skewed"])
def test_sign_flips_keep_their_level(noise):
    """Rows are exchangeable: both have the same skew."""
    rng = np.random.default_rng(1)
    rejections = []
    for block in range(MANY // 50):
        outcome_table = draw(rng, seeds=50, rows=3, skewed=noise == "skewed", examples=40).restrict_to_rows([0, 2])
        rejections.append(permutation_p_values(outcome_table, flips=399, random=block) <= ALPHA)
    low, top = band(0.05, MANY)
    assert low <= np.mean(rejections) <= top


@pytest.mark.parametrize(
    ("model", "seeds", "difference"),
    [
        ({"of_seed": 0.5}, 5, 0.8),
        ({"of_seed": 0.5}, 10, 0.5),
        ({"of_seed": 0.3, "of_example": 0.7}, 10, 0.5),
        ({"of_seed": 0.3, "of_example": 2.0}, 10, 0.8),
    ],
)
def test_crossed_test_has_the_power_of_noncentral_t(model, seeds, difference, repetitions):
    """Expected mean squares, their Satterthwaite degrees; five points are left for degrees that are estimated."""
    examples = 60
    residual = 2.0
    seed = residual + examples * 2 * model["of_seed"] ** 2
    example = residual + seeds * 2 * model.get("of_example", 0.0) ** 2
    combined = seed + example - residual
    below = seed**2 / (seeds - 1) + example**2 / (examples - 1) + residual**2 / ((seeds - 1) * (examples - 1))
    degrees = combined**2 / below
    shift = difference / np.sqrt(combined / (seeds * examples))
    far = stats.t.isf(ALPHA / 2, degrees)
    expected = stats.nct.sf(far, degrees, shift) + stats.nct.cdf(-far, degrees, shift)
    rng = np.random.default_rng(2)
    outcome_tables = (draw(rng, seeds=seeds, difference=difference, **model) for _ in range(repetitions))
    observed = np.mean([crossed_anova_differences(sample, "loss").p[0] < ALPHA for sample in outcome_tables])
    low, top = band(expected, repetitions)
    assert 0.3 < expected < 0.97
    assert low - 0.05 <= observed <= top + 0.05
