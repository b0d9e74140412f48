"""The bounded Brent search evaluates the points of SciPy's, whatever the function."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from bln_search.search.brent import WORST, BoundedBrentMinimizer


def points_of_brent(function, low, high, count):
    search, points = BoundedBrentMinimizer(low, high), []
    while search.point is not None and len(points) < count:
        points.append(search.point)
        search.tell(function(search.point))
    return points


def points_of_scipy(function, low, high, count):
    points = []

    def recorded(x):
        points.append(float(x))
        value = function(float(x))
        return min(value, WORST) if math.isfinite(value) else WORST

    minimize_scalar(recorded, bounds=(low, high), method="bounded", options={"maxiter": count})
    return points


def waves(terms, offset):
    return lambda x: offset + sum(a * math.sin(b * x + c) for a, b, c in terms)


def table(values):
    """A function that is anything at all: one of the values by the last digits of its argument."""
    return lambda x: values[int(abs(x) * 1e6) % len(values)]


number = st.floats(-1e3, 1e3)
bounds = st.tuples(number, st.floats(1e-6, 1e3)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@settings(max_examples=300)
@given(st.lists(st.tuples(number, st.floats(0, 20), number), max_size=4), number, bounds, st.integers(2, 60))
def test_points_equal_those_of_scipy_for_smooth_functions(terms, offset, interval, count):
    function = waves(terms, offset)
    assert points_of_brent(function, *interval, count) == points_of_scipy(function, *interval, count)


@settings(max_examples=300)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=1, max_size=12),
    bounds,
    st.integers(2, 60),
)
def test_points_equal_those_of_scipy_for_any_values_with_nan_and_infinity(values, interval, count):
    function = table(values)
    assert points_of_brent(function, *interval, count) == points_of_scipy(function, *interval, count)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_value_that_is_not_finite_is_worse_than_every_loss(value):
    """The interval shrinks towards the finite value on the left."""
    search = BoundedBrentMinimizer(-6, -2)
    search.tell(2.3)
    right = search.point
    search.tell(value)
    assert right > search.point
    assert points_of_brent(lambda x: 3.4e38 if x < -4 else value, -6, -2, 40)[-1] < -4


def test_minimum_is_found_to_the_tolerance_and_the_search_ends():
    points = points_of_brent(lambda x: (x + 3.7) ** 2, -6, -2, 100)
    assert len(points) < 15
    assert points[-1] == pytest.approx(-3.7, abs=2e-5)
