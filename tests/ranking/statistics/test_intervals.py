"""Intervals and tests against SciPy and explicit definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bln_search.ranking.statistics.intervals import (
    ConfidenceInterval,
    adjust_p_values_by_holm,
    mean_with_t_interval,
    paired_t_test_p_value_of_differences,
    welch_interval,
)
from bln_search.ranking.statistics.student_t import two_sided_p_value, two_sided_t_quantile

NUMBERS = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: round(value, 4))


# SciPy's is wrong by up to 2e-9 where 0 < |t| < 1e-5
@given(st.floats(-60, 60, allow_nan=False).map(lambda t: round(t, 4)), st.integers(1, 300))
def test_two_sided_p_equals_scipy(t, degrees):
    assert two_sided_p_value(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), abs=1e-11)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 50, 299, 10_000])
@pytest.mark.parametrize("t", [3.5, 6.0, 20.0, 200.0, 1e5, 1e9])
def test_two_sided_p_in_the_tail_equals_scipy(t, degrees):
    """To 1e-300, behind which SciPy's is 0."""
    assert two_sided_p_value(t, degrees) == pytest.approx(2 * stats.t.sf(t, degrees), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("degrees", [1, 2, 9])
def test_p_of_an_infinite_t_is_zero(degrees):
    assert two_sided_p_value(math.inf, degrees) == 0


@given(st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]), st.integers(1, 300))
def test_quantile_equals_scipy(level, degrees):
    assert two_sided_t_quantile(level, degrees) == pytest.approx(stats.t.ppf(0.5 + level / 2, degrees), rel=1e-9)


@pytest.mark.parametrize(("t", "degrees"), [(math.nan, 3), (1.0, 0), (1.0, -2)])
def test_invalid_arguments_of_p_are_rejected(t, degrees):
    with pytest.raises(ValueError, match="Student's t"):
        two_sided_p_value(t, degrees)


@given(st.lists(NUMBERS, min_size=2, max_size=12))
def test_interval_equals_scipy(values):
    interval = mean_with_t_interval(values)
    if np.ptp(values) == 0:
        assert interval.half == pytest.approx(0, abs=1e-9)
        return
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx((low, high), rel=1e-7, abs=1e-9)


def test_one_value_has_no_interval():
    interval = mean_with_t_interval([0.5])
    assert (interval.mean, interval.low, interval.high, interval.excludes_zero) == (0.5, None, None, False)


@pytest.mark.parametrize(("first_size", "second_size"), [(2, 2), (2, 9), (5, 5), (12, 3)])
@pytest.mark.parametrize("ratio", [1.0, 0.1, 20.0])
def test_welch_interval_has_its_degrees_rounded_down(first_size, second_size, ratio):
    generator = np.random.default_rng(first_size)
    first, second = generator.normal(size=first_size), 3 + ratio * generator.normal(size=second_size)
    degrees = math.floor(stats.ttest_ind(first, second, equal_var=False).df)
    error = math.sqrt(first.var(ddof=1) / first_size + second.var(ddof=1) / second_size)
    interval = welch_interval(first.tolist(), second.tolist())
    assert interval.half == pytest.approx(stats.t.ppf(0.975, degrees) * error, rel=1e-7)
    assert interval.n == min(first_size, second_size)


@pytest.mark.parametrize(
    ("mean", "half", "excludes_zero"),
    [(0.3, 0.2, True), (-0.3, 0.2, True), (0.2, 0.3, False), (-0.2, 0.3, False), (0.2, 0.2, False), (0.2, None, False)],
)
def test_an_interval_excludes_zero_beyond_its_ends(mean, half, excludes_zero):
    assert ConfidenceInterval(mean, half, 5).excludes_zero is excludes_zero


@given(st.lists(NUMBERS, min_size=2, max_size=10, unique=True))
def test_paired_p_equals_scipy(differences):
    expected = stats.ttest_1samp(differences, 0).pvalue
    assert paired_t_test_p_value_of_differences(differences) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_paired_p_of_equal_differences():
    assert paired_t_test_p_value_of_differences([0.0, 0.0]) == 1
    assert paired_t_test_p_value_of_differences([0.1, 0.1]) == 0
    assert paired_t_test_p_value_of_differences([0.1]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_equals_its_definition(values):
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate([min(1, (len(values) - rank) * values[index]) for rank, index in enumerate(order)])
    assert [adjust_p_values_by_holm(values)[index] for index in order] == pytest.approx(list(stepped))


def test_equal_values_within_two_samples_have_an_interval_of_no_width():
    assert welch_interval([2.0, 2.0, 2.0], [0.5, 0.5]) == ConfidenceInterval(1.5, 0.0, 2)
