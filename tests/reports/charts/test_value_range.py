"""Diverged values do not set the range of an axis, and other values do."""

from __future__ import annotations

import math

import pytest

from bln_search.reports.charts.value_range import find_value_range

USEFUL = [0.31 + n / 100 for n in range(12)]


@pytest.mark.parametrize("diverged", [[43_120.0], [43_120.0, 9e11, math.inf], [43_120.0 + n for n in range(30)]])
def test_diverged_values_are_out_of_range(diverged):
    found = find_value_range([*USEFUL, None, math.nan, *diverged], margin=0.01)
    assert (found.low, found.high, found.is_cut) == (min(USEFUL), max(USEFUL), True)
    assert not any(map(found.contains, diverged))


@pytest.mark.parametrize(
    ("values", "margin"),
    [
        ([0.3, 0.3, 0.3, 2.3], 0.01),  # chance of ten classes is a useful comparison
        ([-5.0, -4.9, -2.0, 1.0], 0.05),
        ([0.1 * n for n in range(100)], None),
        ([0.0, 0.0, 0.0, 7.0], 0.0),
        ([1.0], 0.01),
        ([2.0] * 9, None),
    ],
)
def test_other_values_are_in_range(values, margin):
    found = find_value_range(values, margin)
    assert (found.low, found.high, found.is_cut) == (min(values), max(values), False)


def test_a_value_before_the_end_of_the_axis_stands_at_its_own_position():
    """As wide intervals extend the axis beyond the range."""
    found = find_value_range([0.0, 0.29, 2.5, 2.9, 3.2, 40.0], 0.0, [None, None, 2.5, None, None, None])
    assert found.high < 3.2 < found.end
    assert (found.position(3.2), found.position(40.0)) == (3.2, found.end)


def test_without_a_value_there_is_an_empty_range():
    found = find_value_range([None, math.nan, math.inf])
    assert (found.low, found.high) == (0.0, 0.0)
    assert found.padding > 0


def test_intervals_of_few_networks_do_not_flatten_the_values():
    values = [1.0, 1.5, 2.0, 43_000.0]
    assert find_value_range(values, 0.01, [0.2, 0.1, None, 5_000.0]).padding == pytest.approx(0.22)
    assert find_value_range(values, 0.01, [1e6, math.inf, math.nan, 1.0]).padding == 1.0
