"""All pairs of rows, on the mean over conditions and in each condition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from bln_search.core.errors import DataError
from bln_search.ranking.paired.condition_comparison import compare_rows_over_conditions
from bln_search.ranking.paired.sum_of_means import ExampleRelation
from tests.ranking.conditions import draw_conditions
from tests.ranking.tables import band

MEANS = [[0.0, 0.0], [0.5, 0.6], [0.6, 1.0], [1.5, 2.0]]


@pytest.mark.parametrize("sizes", [(50, 50), (40, 70)])
def test_the_mean_and_each_condition_are_families(sizes):
    tables = draw_conditions(np.random.default_rng(0), sizes, MEANS)
    comparison = compare_rows_over_conditions(tables)
    np.testing.assert_allclose(comparison.mean.adjusted, multipletests(comparison.mean.p, method="holm")[1])
    for part in comparison.by_condition:
        np.testing.assert_allclose(part.adjusted, multipletests(part.p, method="holm")[1])
    assert comparison.relation is (ExampleRelation.CLUSTERS if len(set(sizes)) == 1 else ExampleRelation.STRATA)


def test_differences_are_students_tests_over_examples():
    tables = draw_conditions(np.random.default_rng(1), (60, 60), MEANS, shared=1.0)
    comparison = compare_rows_over_conditions(tables)
    for index, (first, second) in enumerate(zip(*comparison.pairs, strict=True)):
        losses = [table.losses[0].astype(np.float64) for table in tables]
        mean = (losses[0] + losses[1]) / 2
        assert comparison.mean.p[index] == pytest.approx(stats.ttest_rel(mean[first], mean[second]).pvalue, rel=1e-6)
        for part, values in zip(comparison.by_condition, losses, strict=True):
            assert part.p[index] == pytest.approx(stats.ttest_rel(values[first], values[second]).pvalue, rel=1e-6)


def test_letters_separate_rows_of_different_means():
    comparison = compare_rows_over_conditions(draw_conditions(np.random.default_rng(2), (80, 80), MEANS, noise=0.3))
    letters = comparison.letters
    assert not set(letters[0]) & set(letters[3])
    index = comparison.pair_index(3, 0)
    assert [part[index] for part in comparison.pairs] == [0, 3]
    assert comparison.mean.adjusted[index] < 0.05


def test_one_condition_counts_once():
    tables = draw_conditions(np.random.default_rng(5), (50,), [[0.0], [0.3], [0.4]])
    comparison = compare_rows_over_conditions(tables)
    expected = multipletests(comparison.by_condition[0].p, method="holm")[1]
    np.testing.assert_allclose(comparison.mean.adjusted, expected)


def test_other_rows_in_a_condition_are_an_error():
    first, second = (draw_conditions(np.random.default_rng(0), (20,), means)[0] for means in (MEANS, MEANS[:2]))
    with pytest.raises(DataError, match="same seeds and rows"):
        compare_rows_over_conditions([first, second])


@pytest.mark.parametrize(("sizes", "shared"), [((40, 40, 40), 1.0), ((30, 50, 40), 0.0)])
def test_equal_rows_rarely_differ_in_a_family(sizes, shared, repetitions):
    """Some pair on the mean, or some pair in one condition: at most 5 % of comparisons of three equal rows."""
    rng = np.random.default_rng([*sizes, 7])
    alarms = np.zeros(4, int)
    for _ in range(repetitions):
        comparison = compare_rows_over_conditions(draw_conditions(rng, sizes, np.zeros((3, 3)), shared=shared))
        alarms += [(family.adjusted < 0.05).any() for family in (comparison.mean, *comparison.by_condition)]
    assert alarms.max() / repetitions <= band(0.05, repetitions)[1]
