"""The probability of a positive exponential sum agrees with closed forms and with a plain simulation."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.ranking.paired.exponential_sum import probability_of_positive_sum


@pytest.mark.parametrize("values", [[1, -1], [2, -1, -1], [0.5, *[-0.1] * 30], [3, *np.linspace(-1, -0.01, 200)]])
def test_one_positive_value_has_a_product_as_probability(values):
    values = np.array(values, float)
    expected = 1.0
    for value in values[1:]:
        expected *= values[0] / (values[0] - value)
    assert probability_of_positive_sum(values[None])[0] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_skewed_values_agree_with_a_simulation_in_every_unit(scale):
    rng = np.random.default_rng(0)
    values = rng.exponential(size=40) - 1.2
    drawn = (rng.exponential(size=(200_000, 40)) @ values >= 0).mean()
    assert probability_of_positive_sum(scale * values[None])[0] == pytest.approx(drawn, rel=0.03)


def test_equal_values_of_both_signs_are_positive_in_half_of_all_draws():
    assert probability_of_positive_sum(np.array([[1.0, -1.0] * 20]))[0] == pytest.approx(0.5)


def test_values_of_one_sign_are_certain():
    lines = np.array([[-1.0, -2.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    assert probability_of_positive_sum(lines).tolist() == [0, 0, 1, 1, 1]


def test_far_tails_are_small_and_finite():
    values = np.array([[1.0, *[-1.0] * 2_000]])
    assert 0 <= probability_of_positive_sum(values)[0] < 1e-100
