"""Rows are compared with a control by the paired t test, corrected for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bln_search.ranking.paired.control import compare_with_control


def test_differences_are_those_of_the_paired_t_test():
    random = np.random.default_rng(0)
    control = random.normal(size=50)
    losses = control + random.normal(0.1, 0.5, (3, 50))
    for row, found in zip(losses, compare_with_control(losses, control), strict=True):
        expected = stats.ttest_rel(row, control)
        interval = expected.confidence_interval(1 - 0.05 / 3)
        assert found.p == pytest.approx(expected.pvalue)
        assert found.adjusted == pytest.approx(min(1, 3 * expected.pvalue))
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_equal_rows_do_not_count_in_the_correction():
    random = np.random.default_rng(1)
    control = random.normal(size=20)
    equal, other = compare_with_control(np.stack([control, control + random.normal(size=20)]), control)
    assert (equal.mean, equal.low, equal.high, equal.adjusted) == (0, 0, 0, 1)
    assert other.adjusted == other.p


def test_a_constant_difference_is_certain():
    (found,) = compare_with_control(np.ones((1, 5)), np.zeros(5))
    assert (found.mean, found.low, found.high, found.adjusted) == (1, 1, 1, 0)
