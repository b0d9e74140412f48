"""The test against a margin: size, power, bounds and correction, beside exact results and those of other libraries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired.exponential_sum import probability_of_positive_sum
from bln_search.ranking.paired.non_inferiority import MIN_UNITS, NotWorseVerdict, PairedDifferences, judge_conditions


def of_examples(values, weights=None, groups=None, scale=1.0):
    values = np.asarray(values, float)
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    return PairedDifferences.of_examples(values, weights, groups, scale=scale)


def judge(values, margin, **options):
    return judge_conditions([of_examples(values, **options)], [margin])[0]


def share_of_passes(draw, margin, studies, n):
    """Share of simulated studies that show the network to be not worse. draw: makes (studies, n) differences."""
    values = draw((studies, n))
    largest = np.abs(values).max(axis=1, keepdims=True)
    p = probability_of_positive_sum(np.concatenate([values, np.where(largest > 0, largest, 1.0)], axis=1) - margin)
    return (p < 0.05).mean()


@pytest.mark.parametrize(("n", "failures"), [(50, 0), (100, 0), (100, 2), (300, 5)])
def test_errors_of_one_sign_have_the_bounds_of_clopper_and_pearson(n, failures):
    differences = of_examples([1] * failures + [0] * (n - failures))
    exact = stats.binomtest(failures, n).proportion_ci(0.9, method="exact")
    assert differences.upper_bound() == pytest.approx(exact.high, rel=0.02)
    assert differences.p_of_at_least(0.05) == pytest.approx(stats.binom.cdf(failures, n, 0.05), rel=0.02)


def test_errors_that_are_all_equal_pass_from_the_number_of_the_rule_of_three_on():
    assert judge([0] * 298, 0.01).verdict is NotWorseVerdict.CANNOT_TELL
    assert judge([0] * 299, 0.01).verdict is NotWorseVerdict.NOT_WORSE  # 0.99^299 = 4.95 %


@pytest.mark.parametrize("margin", [0.0, 0.02])
def test_many_normal_differences_have_the_p_value_of_the_one_sided_t_test(margin):
    values = np.random.default_rng(1).normal(0.0, 0.5, 20_000)
    expected = stats.ttest_1samp(values, margin, alternative="less").pvalue
    assert of_examples(values).p_of_at_least(margin) == pytest.approx(expected, rel=0.15, abs=1e-4)


def test_both_bounds_of_many_differences_are_those_of_two_one_sided_t_tests():
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    values = np.random.default_rng(2).normal(0.01, 0.5, 20_000)
    low, high = weightstats.DescrStatsW(values).tconfint_mean(alpha=0.1)
    result = judge(values, 0.05)
    assert (result.low, result.high) == pytest.approx((low, high), abs=0.001)


def test_weights_of_two_count_as_weighted_means():
    values, weights = np.random.default_rng(3).normal(size=(2, 80))
    weights = np.abs(weights) + 0.1
    differences = of_examples(values, weights)
    assert differences.mean == pytest.approx((values * weights).sum() / weights.sum())
    drawn = np.random.default_rng(4).exponential(size=(100_000, 81))
    terms = [w * (v - 0.2) for v, w in zip(values, weights, strict=True)]
    terms.append(weights.max() * (np.abs(values).max() - 0.2))
    assert differences.p_of_at_least(0.2) == pytest.approx((drawn @ np.array(terms) >= 0).mean(), rel=0.03)


def test_mini_batches_are_units_weighted_by_their_examples():
    values = np.random.default_rng(5).normal(size=95)
    groups = np.arange(95) // 10
    differences = of_examples(values, groups=groups)
    assert differences.units == 10
    assert differences.weights.tolist() == [10] * 9 + [5]
    assert differences.values[9] == pytest.approx(values[90:].mean())
    assert differences.mean == pytest.approx(values.mean())


@pytest.mark.parametrize("n", [50, 200, 1_000])
@pytest.mark.parametrize("name", ["exponential", "mirrored", "difference of exponentials", "errors", "rare errors"])
def test_at_most_five_per_cent_pass_where_the_network_is_worse_by_the_margin(name, n):
    rng = np.random.default_rng([6, n])
    draws, margin = {
        "exponential": (lambda shape: rng.exponential(0.1, shape), 0.1),
        "mirrored": (lambda shape: 0.2 - rng.exponential(0.1, shape), 0.1),
        "difference of exponentials": (lambda shape: 0.1 + rng.exponential(1, shape) - rng.exponential(1, shape), 0.1),
        "errors": (lambda shape: rng.choice([1, -1, 0], shape, p=[0.07, 0.05, 0.88]), 0.02),
        "rare errors": (lambda shape: rng.choice([1, 0], shape, p=[0.01, 0.99]), 0.01),
    }[name]
    studies = 2_000
    assert share_of_passes(draws, margin, studies, n) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / studies)


def test_students_t_test_would_pass_most_studies_of_rare_errors():
    """Why it is not used: 50 examples of errors in one of a hundred mostly have no error, and no variance."""
    rng = np.random.default_rng(7)
    values = rng.choice([1.0, 0.0], (2_000, 50), p=[0.01, 0.99])
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (values.mean(axis=1) - 0.01) / (values.std(axis=1, ddof=1) / np.sqrt(50))
    assert (stats.t.cdf(t, 49) < 0.05).mean() > 0.5


def test_the_required_number_of_examples_decides_about_four_fifths_of_studies():
    rng = np.random.default_rng(8)
    few = np.tile([0.31, -0.29, 0.2, -0.18], 25)  # mean 0.01
    required = judge(few, 0.05).required
    deviation = few.std()
    share = share_of_passes(lambda shape: rng.normal(few.mean(), deviation, shape), 0.05, 2_000, required)
    assert share == pytest.approx(0.8, abs=0.06)


def test_no_number_is_required_where_the_difference_is_the_margin():
    assert judge([0.02, 0.04] * 40, 0.03).required is None


def test_that_a_network_is_worse_is_corrected_over_conditions():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    rng = np.random.default_rng(9)
    conditions = [of_examples(rng.normal(mean, 1.0, 400)) for mean in (0.1, 0.15, 0.2, 0.0)]
    together = [each.p_worse for each in judge_conditions(conditions, [0.05] * 4)]
    alone = [judge_conditions([each], [0.05])[0].p_worse for each in conditions]
    assert together == pytest.approx(multitest.multipletests(alone, method="holm")[1])


def test_that_a_network_is_not_worse_needs_no_correction():
    values = np.random.default_rng(10).normal(0, 1, 500)
    one = judge_conditions([of_examples(values)], [0.1])[0]
    assert judge_conditions([of_examples(values)] * 5, [0.1] * 5)[3].p_not_worse == one.p_not_worse


def test_few_units_show_nothing():
    assert judge([0.0001, 0.0002] * (MIN_UNITS // 2 - 1), 0.1).verdict is NotWorseVerdict.CANNOT_TELL
    assert judge([0.0001, 0.0002] * (MIN_UNITS // 2), 0.1).verdict is NotWorseVerdict.NOT_WORSE
    assert judge([5.0], 0.1).required == MIN_UNITS


def test_equal_differences_have_bounds_and_a_verdict():
    result = judge([0.3] * 40, 0.0)
    assert result.verdict is NotWorseVerdict.WORSE
    assert result.low < result.mean == pytest.approx(0.3) == pytest.approx(result.high)
    assert judge([-0.3] * 40, 0.0).verdict is NotWorseVerdict.NOT_WORSE


def test_a_margin_of_zero_needs_a_better_network():
    values = np.random.default_rng(11).normal(size=400)
    assert judge(values - values.mean(), 0.0).verdict is NotWorseVerdict.CANNOT_TELL
    assert judge(values - values.mean() - 0.2, 0.0).verdict is NotWorseVerdict.NOT_WORSE
