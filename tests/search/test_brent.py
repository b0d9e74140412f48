"""The bounded Brent search evaluates the points of SciPy's, whatever the function."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from bln_search.search.brent_sampler import find_next_point


def points_of_search(function, low, high, count):
    points, values = [], []
    while len(points) < count and (point := find_next_point(low, high, values)) is not None:
        points.append(point)
        values.append(function(point))
    return points


number = st.floats(-1e3, 1e3)


@given(st.floats(0, 20), number, number, st.floats(1e-6, 1e3), st.integers(2, 40))
def test_points_equal_those_of_one_call_of_scipy(frequency, phase, low, width, count):
    points = []

    def recorded(x):
        points.append(float(x))
        return math.sin(frequency * x + phase)

    minimize_scalar(recorded, bounds=(low, low + width), method="bounded", options={"maxiter": count})
    assert points_of_search(lambda x: math.sin(frequency * x + phase), low, low + width, count) == points


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_value_that_is_not_finite_is_worse_than_every_loss(value):
    """The interval shrinks towards the finite value on the left."""
    assert points_of_search(lambda x: 3.4e38 if x < -4 else value, -6, -2, 40)[-1] < -4


def test_minimum_is_found_to_the_tolerance_and_the_search_ends():
    points = points_of_search(lambda x: (x + 3.7) ** 2, -6, -2, 100)
    assert len(points) < 15
    assert points[-1] == pytest.approx(-3.7, abs=2e-5)
