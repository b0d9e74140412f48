"""The planned number of seeds is that of the power of the paired t test in statsmodels."""

from __future__ import annotations

from math import ceil

import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from papers.experiments.planned_seeds import MOST_SEEDS, seeds_for_power


@pytest.mark.parametrize("mean", [0.5, -0.8, 1.3, 3.0])
def test_the_number_is_that_of_statsmodels(mean):
    values = stats.zscore([1.0, 2.0, 4.0, 4.5], ddof=1) + mean
    expected = TTestPower().solve_power(effect_size=abs(mean), alpha=0.05, power=0.8)
    assert seeds_for_power(values.tolist()) == ceil(expected)


def test_a_difference_near_zero_needs_more_seeds_than_are_counted():
    assert seeds_for_power([1.0, -1.0, 0.01]) is None
    assert MOST_SEEDS == 100
