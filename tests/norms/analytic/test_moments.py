"""Every moment rule against numerical integration, in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import special
from torch import Tensor

from bln_search.norms.analytic import moments
from bln_search.norms.analytic.moments import MeanVariance

MEANS = np.linspace(-6, 6, 13)


def integrated(function: Callable[[np.ndarray], np.ndarray], mean: float, deviation: float) -> tuple[float, float]:
    """Mean and variance of f(x), x normal, by Gauss–Legendre panels on each side of the kink of f at x = 0."""
    points, weights = np.polynomial.legendre.leggauss(20)
    kink = float(np.clip(-mean / deviation, -12, 12))
    edges = np.concatenate([np.linspace(-12, kink, 60)[:-1], np.linspace(kink, 12, 60)])
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    x = (middle[:, None] + half[:, None] * points).ravel()
    density = (half[:, None] * weights).ravel() * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    values = function(mean + deviation * x)
    expected = values @ density
    return expected, (values - expected) ** 2 @ density


def value(mean: float, deviation: float) -> MeanVariance:
    return MeanVariance(torch.tensor(mean, dtype=torch.float64), torch.tensor(deviation**2, dtype=torch.float64))


@pytest.mark.parametrize("slopes", [(0, 1), (1, 1), (0.01, 1), (0.03, 1.03), (-1, 1)], ids=str)
def test_piecewise_linear_functions_equal_the_integral(slopes):
    below, above = slopes
    for mean in MEANS:
        for deviation in (0.1, 1.0, 3.0):
            propagated = moments.propagate_piecewise_linear(value(mean, deviation), below, above)
            expected = integrated(lambda x: np.where(x < 0, below * x, above * x), mean, deviation)
            np.testing.assert_allclose([float(part) for part in propagated], expected, rtol=1e-10, atol=1e-12)


def test_relu_at_mean_zero_has_the_constants_of_normalization_propagation():
    mean, variance = moments.propagate_piecewise_linear(value(0, 1), 0, 1)
    assert float(mean) == pytest.approx(1 / np.sqrt(2 * np.pi), abs=1e-15)
    assert float(variance) == pytest.approx((1 - 1 / np.pi) / 2, abs=1e-15)


@pytest.mark.parametrize(
    ("rule", "function", "largest", "error"),
    [
        (moments.propagate_logistic, special.expit, 2, 2e-9),
        (moments.propagate_logistic, special.expit, 5, 2e-4),
        (moments.propagate_hyperbolic_tangent, np.tanh, 1, 3e-9),
        (moments.propagate_hyperbolic_tangent, np.tanh, 2, 6e-5),
        (moments.propagate_hyperbolic_tangent, np.tanh, 5, 0.012),
    ],
)
def test_quadrature_has_the_errors_that_are_stated(rule, function, largest, error):
    for mean in MEANS:
        for deviation in np.linspace(0.05, largest, 8):
            propagated = rule(value(mean, deviation))
            expected = integrated(function, mean, deviation)
            assert abs(float(propagated.mean) - expected[0]) < error
            assert abs(float(propagated.variance) ** 0.5 - expected[1] ** 0.5) < error


def test_maximum_of_many_has_the_published_constants():
    # Harter 1961, Expected values of normal order statistics: n = 4 and n = 9
    for count, expected in ((1, 0.0), (4, 1.02938), (9, 1.48501)):
        assert float(moments.propagate_maximum_of_many(value(0, 1), count).mean) == pytest.approx(expected, abs=5e-6)
    assert float(moments.propagate_maximum_of_many(value(2, 3), 1).variance) == pytest.approx(9, abs=1e-10)


def test_average_dropout_and_sum_equal_their_definitions():
    x = value(1.5, 2.0)
    assert moments.propagate_average_of_many(x, 4) == (x.mean, x.variance / 4)
    # dropout: E f² = (1 − p)·E x²/(1 − p)²
    dropped = moments.propagate_dropout(x, 0.25)
    assert float(dropped.mean) == 1.5
    assert float(dropped.variance) == pytest.approx((4 + 2.25) / 0.75 - 2.25, rel=1e-15)
    assert moments.propagate_sum_of_two(x, value(-1, 1)) == (torch.tensor(0.5).double(), torch.tensor(5.0).double())


RULES = {
    "relu": lambda x: moments.propagate_piecewise_linear(x, 0, 1),
    "leaky": lambda x: moments.propagate_piecewise_linear(x, 0.03, 1.03),
    "logistic": moments.propagate_logistic,
    "tanh": moments.propagate_hyperbolic_tangent,
    "maximum of many": lambda x: moments.propagate_maximum_of_many(x, 4),
    "dropout": lambda x: moments.propagate_dropout(x, 0.5),
}


@pytest.mark.parametrize("name", RULES)
def test_gradients_are_those_of_finite_differences(name):
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(4, generator=generator, dtype=torch.float64).requires_grad_()
    variance = (torch.rand(4, generator=generator, dtype=torch.float64) + 0.1).requires_grad_()

    def function(mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        return tuple(RULES[name](MeanVariance(mean, variance)))

    assert torch.autograd.gradcheck(function, (mean, variance))


@pytest.mark.parametrize("name", RULES)
def test_a_fixed_value_stays_fixed_with_finite_gradients(name):
    mean = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    variance = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    propagated = RULES[name](MeanVariance(mean, variance))
    if name != "dropout":
        assert propagated.variance.abs().max() < 1e-30
    (propagated.mean.sum() + propagated.variance.sum()).backward()
    assert mean.grad is not None
    assert mean.grad.isfinite().all()
    assert variance.grad is not None
    assert variance.grad.isfinite().all()
