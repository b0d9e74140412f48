"""Sums of means over sets of examples against explicit formulas, SciPy, and simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from bln_search.ranking.paired.sum_of_means import (
    ExampleRelation,
    compare_sums_of_means_with_zero,
    relate_examples,
)
from tests.ranking.tables import band, compare_all_pairs, draw
from tests.support.tiers import thinned

ALPHA = 0.05


def by_loop(sets):
    """Mean, half-width and p of one contrast: components of the variance by loops, p by a root finder."""
    seeds = len(sets[0])
    totals = [sum(values[s].mean() for values in sets) for s in range(seeds)]
    mean = sum(totals) / seeds
    parts = []
    if seeds > 1:
        parts.append((sum((total - mean) ** 2 for total in totals) / (seeds - 1) / seeds, seeds - 1))
    for values in sets:
        n = values.shape[1]
        of_example = [sum(values[s, i] for s in range(seeds)) / seeds for i in range(n)]
        centre = sum(of_example) / n
        example = seeds * sum((effect - centre) ** 2 for effect in of_example) / (n - 1)
        residual = 0.0
        if seeds > 1:
            residual = sum(
                (values[s, i] - values[s].mean() - of_example[i] + centre) ** 2 for s in range(seeds) for i in range(n)
            ) / ((seeds - 1) * (n - 1))
        parts.append((max(example - residual, 0.0) / (seeds * n), n - 1))

    def reach(p):
        return math.sqrt(sum(stats.t.isf(p / 2, degrees) ** 2 * variance for variance, degrees in parts))

    return mean, reach(0.05), optimize.brentq(lambda p: reach(p) - abs(mean), 1e-30, 1.0, xtol=1e-300, rtol=1e-12)


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("sizes", [(20, 35), (12, 12), (9, 30, 15)])
def test_a_sum_equals_the_formula(seeds, sizes):
    rng = np.random.default_rng([seeds, *sizes])
    sets = [rng.normal(0.2, 1.0, (seeds, 1, n)) + rng.normal(size=(1, 1, n)) for n in sizes]
    result = compare_sums_of_means_with_zero(sets)
    strata = [sum(sets)] if len(set(sizes)) == 1 else sets
    mean, half, p = by_loop([values[:, 0] for values in strata])
    assert result.mean[0] == pytest.approx(mean, abs=1e-12)
    assert result.half[0] == pytest.approx(half, rel=1e-9)
    assert result.p[0] == pytest.approx(p, rel=1e-8)


@pytest.mark.parametrize("seeds", [1, 4])
def test_one_set_is_the_crossed_analysis(seeds):
    table = draw(np.random.default_rng(0), seeds=seeds, rows=3, of_example=1.0)
    first, second = table.row_pairs
    values = table.losses.astype(np.float64)
    result, crossed = (
        compare_sums_of_means_with_zero([values[:, first] - values[:, second]]),
        compare_all_pairs(table),
    )
    for name in ("mean", "half", "p"):
        np.testing.assert_allclose(getattr(result, name), getattr(crossed, name), rtol=1e-8, atol=1e-14)


def test_clusters_are_students_test_over_examples():
    rng = np.random.default_rng(3)
    sets = [rng.normal(0.1, 1.0, (1, 1, 40)) for _ in range(3)]
    expected = stats.ttest_1samp(sum(sets)[0, 0], 0.0)
    assert compare_sums_of_means_with_zero(sets).p[0] == pytest.approx(expected.pvalue, rel=1e-6)


def test_shared_examples_do_not_count_twice():
    """The same images in two conditions: the mean over both is no more certain than that of one."""
    values = np.random.default_rng(4).normal(0.2, 1.0, (1, 1, 50))
    assert compare_sums_of_means_with_zero([values / 2, values / 2]).half == pytest.approx(
        compare_sums_of_means_with_zero([values]).half
    )


@pytest.mark.parametrize(
    ("sizes", "shared"), [((40, 40, 40), 0.0), ((40, 40, 40), 1.5), ((30, 60), 0.0)], ids=["equal", "same", "strata"]
)
@pytest.mark.parametrize("seeds", thinned([1, 3], 2, start=1))
def test_no_more_false_positives_than_the_level(sizes, shared, seeds, repetitions):
    """Equal rows; with `shared` the examples of equal index are the same images."""
    rng = np.random.default_rng([*sizes, seeds, int(10 * shared)])
    alarms = 0
    for _ in range(repetitions):
        of_seed, of_index = 0.3 * rng.normal(size=(seeds, 1, 1)), shared * rng.normal(size=(1, 1, max(sizes)))
        sets = [
            (of_seed * (seeds > 1) + of_index[:, :, :n] + rng.normal(size=(1, 1, n)) + rng.normal(size=(seeds, 1, n)))
            / len(sizes)
            for n in sizes
        ]
        alarms += compare_sums_of_means_with_zero(sets).p[0] < ALPHA
    assert alarms / repetitions <= band(ALPHA, repetitions)[1]


@pytest.mark.parametrize("seeds", [1, 3])
def test_no_more_false_positives_where_the_same_examples_come_in_other_orders(seeds, repetitions):
    """Taken for examples of equal index they give too many; the sum of the standard errors bounds any dependence."""
    rng = np.random.default_rng(seeds)
    alarms = dict.fromkeys((ExampleRelation.UNKNOWN, ExampleRelation.CLUSTERS), 0)
    for _ in range(repetitions):
        of_example = 1.5 * rng.normal(size=(1, 1, 40))
        sets = [(of_example[:, :, rng.permutation(40)] + 0.2 * rng.normal(size=(seeds, 1, 40))) / 3 for _ in range(3)]
        for relation in alarms:
            alarms[relation] += compare_sums_of_means_with_zero(sets, relation).p[0] < ALPHA
    assert alarms[ExampleRelation.UNKNOWN] / repetitions <= band(ALPHA, repetitions)[1]
    assert alarms[ExampleRelation.CLUSTERS] / repetitions > 2 * ALPHA


@pytest.mark.parametrize(
    ("sizes", "targets", "relation"),
    [
        ((3, 3), (), ExampleRelation.CLUSTERS),
        ((3, 3), ([1, 1, 2], [1, 1, 2]), ExampleRelation.CLUSTERS),
        ((3, 3), ([1, 1, 2], None), ExampleRelation.CLUSTERS),
        ((3, 3), ([1, 1, 2], [1, 2, 1]), ExampleRelation.UNKNOWN),
        ((3, 3, 3), ([1, 1, 2], [1, 1, 2], [4, 5, 6]), ExampleRelation.UNKNOWN),
        ((3, 4), ([1, 1, 2], [1, 1, 2, 2]), ExampleRelation.STRATA),
    ],
)
def test_targets_tell_whether_examples_of_equal_index_may_be_the_same(sizes, targets, relation):
    orders = [None if order is None else np.array(order, np.uint64) for order in targets]
    assert relate_examples(sizes, orders) is relation
