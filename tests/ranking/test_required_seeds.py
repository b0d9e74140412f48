"""The number of seeds that would separate two rows, compared with the power of the paired t test of statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from bln_search.core.enums import Split
from bln_search.ranking.comparison import ALPHA, MAX_REQUIRED_SEEDS, POWER
from bln_search.ranking.paired import OutcomeTable, compare_all_pairs_of_rows
from bln_search.ranking.paired.crossed_anova import crossed_anova_differences
from bln_search.ranking.paired.required_seeds import crossed_test_power, estimate_required_seeds
from tests.ranking.tables import ROWS, band, draw


def shifted(shifts, *, examples=20, of_example=0.0):
    """Two rows; under each seed the second is worse by the shift of that seed, on all examples alike."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 8, (len(shifts), examples)) / 8
    second = first + np.asarray(shifts)[:, None] + of_example * rng.normal(size=examples)
    losses = np.stack([first, second], axis=1).astype(np.float32)
    return OutcomeTable(losses, losses < 1)


@pytest.mark.parametrize("level", [0.05, 0.05 / 6, 0.05 / 120])
@pytest.mark.parametrize("shifts", [(0.25, 0.5), (0.25, 0.5, 0.125, -0.125, 0.25), (0.5, 0.25, -0.25, 0.125)])
def test_without_example_variance_it_is_that_of_the_paired_t_test(shifts, level):
    """The power is compared, not `solve_power`: its root finder ends early where SciPy's noncentral t gives NaN."""
    effect = abs(np.mean(shifts)) / np.std(shifts, ddof=1)
    required = estimate_required_seeds(shifted(shifts), level)
    assert required.level == level
    assert not required.limited_by_examples
    power = TTestPower().power
    assert power(effect, required.seeds - 1, level) < POWER <= power(effect, required.seeds, level)


@pytest.mark.parametrize("seeds", [2, 3, 10, 30])
@pytest.mark.parametrize("level", [0.05, 0.0004])
def test_power_is_that_of_the_noncentral_t_distribution(seeds, level):
    expected = TTestPower().power(effect_size=0.7, nobs=seeds, alpha=level)
    assert crossed_test_power(0.7, 1.0, 0.0, level, seeds, 100) == pytest.approx(expected, abs=2e-4)


def test_the_crossed_test_rejects_as_often_as_predicted():
    rng = np.random.default_rng(5)
    seeds, examples, of_seed, of_example, mean, repetitions = 6, 50, 0.3, 1.0, 0.6, 400
    tables = [
        draw(rng, seeds=seeds, examples=examples, of_seed=of_seed, of_example=of_example, noise=0.0, difference=mean)
        for _ in range(repetitions)
    ]
    share = np.mean([crossed_anova_differences(table, "loss").p[0] < ALPHA for table in tables])
    predicted = crossed_test_power(mean, 2 * of_seed**2, 2 * of_example**2 / examples, ALPHA, seeds, examples)
    low, high = band(predicted, repetitions)
    assert 0.2 < predicted < 0.9
    assert low <= share <= high


def test_too_few_examples_are_named_as_the_limit():
    required = estimate_required_seeds(shifted((0.1, 0.12, 0.11), examples=30, of_example=1.0), ALPHA)
    assert required.limited_by_examples
    assert required.seeds is None


def test_no_number_is_named_above_the_largest():
    required = estimate_required_seeds(shifted((1.0, -1.0, 0.125)), 0.001)
    assert required.seeds is None
    assert not required.limited_by_examples
    assert crossed_test_power(0.125 / 3, 1.0, 0.0, 0.001, MAX_REQUIRED_SEEDS, 20) < POWER


@pytest.mark.parametrize("shifts", [(0.5,), (0.0, 0.0, 0.0)], ids=["one seed", "equal rows"])
def test_no_estimate_without_a_variance_or_a_difference(shifts):
    assert estimate_required_seeds(shifted(shifts), ALPHA) is None


@pytest.mark.parametrize("rows", [3, 4, 6])
def test_the_level_is_that_of_the_pairs_that_do_not_differ(rows):
    table = draw(np.random.default_rng(1), rows=rows, seeds=5, of_seed=0.4, examples=60, difference=0.4)
    comparison = compare_all_pairs_of_rows(ROWS[:rows], table, Split.VALIDATION)
    rejected = sum(pair.is_significant for pair in comparison.pairs)
    assert 0 < rejected < len(comparison.pairs)
    assert comparison.required_seeds.level == ALPHA / (len(comparison.pairs) - rejected)


@pytest.mark.parametrize("of_example", [0.0, 0.5])
def test_a_moderated_test_needs_the_seeds_of_a_normal_distribution(of_example):
    table = shifted((0.25, 0.5, 0.125, -0.125, 0.25), examples=200, of_example=of_example)
    required = estimate_required_seeds(table, 0.001, moderated_of_seeds=0.01)
    differences = table.losses[:, 0].astype(float) - table.losses[:, 1]
    of_examples = differences.mean(axis=0).var(ddof=1) / 200
    excess = stats.norm.ppf(1 - 0.001 / 2) + stats.norm.ppf(POWER)
    reachable = (differences.mean() / excess) ** 2 - of_examples
    assert required.seeds == pytest.approx(5 * 0.01 / reachable, abs=1)


def test_no_estimate_for_rows_that_differ_significantly():
    table = draw(np.random.default_rng(1), rows=4, seeds=5, of_seed=0.3, examples=60, difference=20.0)
    assert compare_all_pairs_of_rows(ROWS[:4], table, Split.VALIDATION).required_seeds is None
