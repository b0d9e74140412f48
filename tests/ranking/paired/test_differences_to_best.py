"""Every row minus the best one: corrected p values, and the tests of practical equality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from bln_search.ranking.comparison import RowVerdict
from bln_search.ranking.paired.differences_to_best import differences_to_best, row_verdicts
from tests.ranking.tables import band, draw


def losses_of(table):
    return table.losses[0].astype(np.float64)


def test_two_rows_have_students_paired_t_test():
    table = draw(np.random.default_rng(0), seeds=1, difference=0.4)
    difference = differences_to_best(table, "loss", 0)
    expected = stats.ttest_rel(losses_of(table)[1], losses_of(table)[0])
    assert (difference.mean[1], difference.p[1], difference.adjusted[1]) == pytest.approx(
        (table.losses[0, 1].mean() - table.losses[0, 0].mean(), expected.pvalue, expected.pvalue), rel=1e-5
    )
    assert difference.half[1] == pytest.approx(np.diff(expected.confidence_interval(0.95))[0] / 2)


def test_p_values_are_corrected_over_all_pairs_by_holm():
    table = draw(np.random.default_rng(1), seeds=1, rows=3, difference=0.2)
    differences = differences_to_best(table, "loss", 0)
    losses = losses_of(table)
    p = [stats.ttest_rel(losses[first], losses[second]).pvalue for first, second in ((1, 0), (2, 0), (2, 1))]
    expected = np.minimum(multipletests(p, method="holm")[1][:2], max(p[:2]))
    assert differences.adjusted[1:] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("margin", [0.05, 0.3, 1.0])
def test_practical_equality_is_the_test_of_statsmodels(margin):
    """Two one-sided tests (Schuirmann 1987); the observed difference makes one of them the larger."""
    table = draw(np.random.default_rng(2), seeds=1, examples=200, difference=0.1)
    differences = differences_to_best(table, "loss", 0, margin)
    losses = losses_of(table)
    _, (_, p_low, _), (_, p_high, _) = ttost_paired(losses[1], losses[0], -margin, margin)
    mean = differences.mean[1]
    beyond, opposite = (p_high, p_low) if mean > 0 else (p_low, p_high)
    assert differences.beyond_margin[1] == pytest.approx(beyond if margin > abs(mean) else 1, rel=1e-5)
    assert differences.opposite_margin[1] == pytest.approx(opposite, rel=1e-5)


def test_equality_is_corrected_over_the_rows():
    table = draw(np.random.default_rng(3), seeds=1, rows=4, examples=400, difference=0.05)
    losses = losses_of(table)
    best = int(losses.mean(axis=1).argmin())
    others = [row for row in range(4) if row != best]
    margin = 0.4
    p = [ttost_paired(losses[row], losses[best], -margin, margin)[2][1] for row in others]
    expected = multipletests(p, method="holm")[1]
    differences = differences_to_best(table, "loss", best, margin)
    assert differences.beyond_margin[others] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("preferred", [None, [False, False, False, True]])
def test_a_row_is_settled_by_its_largest_p_value_over_its_share(preferred):
    """The preferred row has four fifths of the error rate; rows that are not worse than the best one share the rest."""
    table = draw(np.random.default_rng(3), seeds=1, rows=4, examples=400, difference=0.03)
    losses = losses_of(table)
    best, margin = int(losses.mean(axis=1).argmin()), 0.3
    differences = differences_to_best(table, "loss", best, margin, preferred=preferred)
    rivals = [row for row in range(4) if row == best or differences.adjusted[row] >= 0.05]
    for row in range(4):
        p = max(
            stats.ttest_rel(losses[row] - margin, losses[other], alternative="less").pvalue
            for other in range(4)
            if other != row
        )
        if preferred is None:
            share = 1 / len(rivals)
        else:
            share = 0.8 if preferred[row] else 0.2 / len([one for one in rivals if not preferred[one]])
        assert differences.better_by_margin[row] == pytest.approx(min(1, p / share), rel=1e-4)


@pytest.mark.parametrize("seeds", [1, 3])
def test_of_many_rows_the_best_and_the_preferred_ones_may_be_settled(seeds):
    table = draw(np.random.default_rng(9), seeds=seeds, rows=70, examples=200, noise=0.05)
    best = int(table.losses.mean(axis=(0, 2)).argmin())
    preferred = [row == 30 for row in range(70)]
    differences = differences_to_best(table, "loss", best, 0.2, preferred=preferred)
    assert {int(row) for row in np.flatnonzero(differences.better_by_margin < 0.05)} == {best, 30}


def test_verdicts_follow_from_the_tests():
    table = draw(np.random.default_rng(4), seeds=1, rows=4, examples=900, noise=0.2)
    losses = table.losses + np.float32([0, 0.01, 0.2, 0])[:, None]
    losses[:, 3] += np.random.default_rng(5).normal(size=900).astype(np.float32)
    best = int(losses.mean(axis=(0, 2)).argmin())
    differences = differences_to_best(type(table)(losses, losses < 0), "loss", best, 0.05)
    verdicts = row_verdicts(differences, best, 0.05)
    equal, best_verdict = RowVerdict.PRACTICALLY_EQUAL, RowVerdict.BEST
    assert verdicts == [best_verdict, equal, RowVerdict.WORSE, RowVerdict.CANNOT_TELL]


@pytest.mark.parametrize("rows", [60, 1000])
def test_many_rows_have_their_paired_differences(rows):
    """Rows that vary alike: the moderated interval of each is near that of the known variance."""
    rng = np.random.default_rng(rows)
    table = draw(rng, seeds=3, rows=rows, examples=40, of_seed=0.5, noise=0.1)
    differences = differences_to_best(table, "loss", 0)
    means = table.losses.mean(axis=(0, 2), dtype=np.float64)
    np.testing.assert_allclose(differences.mean, means - means[0], atol=1e-6)
    assert np.median(differences.half[1:]) == pytest.approx(1.96 * np.sqrt(2 * (0.25 + 0.01 / 40) / 3), rel=0.25)


@pytest.mark.parametrize("seeds", [1, 3])
def test_one_of_many_equal_rows_is_seldom_worse(seeds, repetitions):
    rng, tables = np.random.default_rng(6), repetitions // 3
    alarms = 0
    for _ in range(tables):
        table = draw(rng, seeds=seeds, rows=80, examples=30, of_seed=0.5 * (seeds > 1), noise=0.1)
        best = int(table.losses.mean(axis=(0, 2)).argmin())
        alarms += differences_to_best(table, "loss", best).adjusted.min() < 0.05
    assert alarms <= band(0.05, tables)[1] * tables
