"""Errors of the AP2 paper (Shekhovtsov & Flach 2018), each shown by numbers; docs/ap2.md lists them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.norms.analytic.moment_rules import ConvolutionRule
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.specs.sections.training import ExponentialRate
from tests.models.analytic.networks import analytic_layers, build

RATE = 0.1


def quadratic(theta):
    """A function whose gradient has no symmetry."""
    scales = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)
    return (scales * theta.square()).sum() / 2 + theta[0] * theta[1] + theta[2]


def step_of(optimizer, factor, rate=RATE):
    """The change of θ = factor·θ' by the first step on θ'."""
    start = torch.tensor([0.4, -1.2, 0.7], dtype=torch.float64)
    parameter = (start / factor).requires_grad_()
    chosen = optimizer([parameter], lr=rate)
    quadratic(factor * parameter).backward()
    chosen.step()
    return (factor * parameter - start).detach()


def test_eq_7_is_transposed():
    """Descent in θ' = Aθ changes θ by (AᵀA)⁻¹∇f(θ), not by (AAᵀ)⁻¹∇f(θ)."""
    generator = torch.Generator().manual_seed(0)
    a, theta = torch.randn(3, 3, generator=generator, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    inverse = torch.linalg.inv(a)
    transformed = (a @ theta).requires_grad_()
    (gradient_transformed,) = torch.autograd.grad(quadratic(inverse @ transformed), transformed)
    change = inverse @ (transformed - RATE * gradient_transformed) - theta
    theta.requires_grad_()
    (gradient,) = torch.autograd.grad(quadratic(theta), theta)
    torch.testing.assert_close(change, -RATE * torch.linalg.inv(a.T @ a) @ gradient, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(change, -RATE * torch.linalg.inv(a @ a.T) @ gradient, rtol=0.1)


@pytest.mark.parametrize(("optimizer", "factor"), [(torch.optim.SGD, 4), (torch.optim.Adam, 2)])
def test_steps_of_f_of_twice_the_parameters_are_four_times_as_large_with_sgd_alone(optimizer, factor):
    """The experiments use Adam, whose steps do not depend on the scale of the gradient."""
    torch.testing.assert_close(step_of(optimizer, 2.0), factor * step_of(optimizer, 1.0), rtol=1e-6, atol=1e-9)


def test_the_decay_over_fifty_epochs_is_less_than_ten():
    """0.96⁵⁰ = 1/7.7; a factor of 10 takes 57 epochs."""
    rate = ExponentialRate(kind="exponential", gamma=0.96)
    factors = {epochs: rate.factor_at_progress(1.0, epochs) for epochs in (50, 56, 57)}
    assert 1 / factors[50] == pytest.approx(7.70, abs=0.01)
    assert factors[56] > 0.1 > factors[57]


def test_the_variance_of_a_convolution_is_not_that_of_its_summed_weights():
    """Section 2.1 sums the weights of a filter over positions; right for the mean, and for equal positions."""
    generator = torch.Generator().manual_seed(1)
    convolution = nn.Conv2d(2, 3, 3, bias=False, dtype=torch.float64)
    x = torch.randn(200_000, 2, 3, 3, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        nn.init.normal_(convolution.weight, generator=generator)
        sampled = convolution(x).flatten(1).var(0)
        equal_positions = convolution(x[..., :1, :1].expand(-1, -1, 3, 3)).flatten(1).var(0)
        summed = convolution.weight.sum((2, 3)).square().sum(1)
        squared = convolution.weight.square().sum((1, 2, 3))
        value = MeanVariance(torch.zeros(2, 1, 1, dtype=torch.float64), torch.ones(2, 1, 1, dtype=torch.float64))
        rule = ConvolutionRule(convolution)([value], training=False).variance.flatten()
    torch.testing.assert_close(sampled, squared, rtol=0.02, atol=0)
    torch.testing.assert_close(rule, squared, rtol=1e-12, atol=0)
    torch.testing.assert_close(equal_positions, summed, rtol=0.02, atol=0)
    assert ((summed / sampled - 1).abs() > 0.1).all()


def test_the_sample_variance_needs_the_covariance_about_the_mean():
    """⟨wwᵀ, C⟩ of section 1.1 is the variance of wᵀz for C about the mean, not for Σ z zᵀ/(n − 1)."""
    generator = np.random.default_rng(2)
    z, w = generator.normal(1.5, 1.0, (50, 4)), generator.uniform(0.5, 1.0, 4)
    centred = z - z.mean(0)
    expected = np.var(z @ w, ddof=1)
    assert w @ (centred.T @ centred / 49) @ w == pytest.approx(expected, rel=1e-12)
    assert w @ (z.T @ z / 49) @ w > 1.2 * expected


def test_the_variance_of_a_linear_transform_needs_one_entry_of_the_covariance_for_each_pair():
    """Eq. 3b prints Cov[X] for Cov[X]_ij; with any single number in its place the sum is (Σ w)² times it."""
    w, covariance = np.array([1.0, -1.0]), np.array([[1.0, 0.5], [0.5, 2.0]])
    assert w @ covariance @ w == pytest.approx(2.0)
    assert (w.sum() ** 2 * covariance).max() == 0


def test_weight_normalization_with_mean_zero_depends_on_a_bias_in_front():
    """Section 1.1 claims invariance to the bias for its estimates; μ = 0 is none of wᵀE[Z] + a."""
    generator = torch.Generator().manual_seed(3)
    w, z = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((1, 4), (6, 4)))

    def normalized(bias, mean):
        return (F.linear(z, w, torch.tensor([bias], dtype=torch.float64)) - mean) / w.norm()

    difference = normalized(2.0, 0.0) - normalized(0.0, 0.0)
    torch.testing.assert_close(difference, torch.full_like(difference, 2.0) / w.norm())
    torch.testing.assert_close(normalized(2.0, 2.0), normalized(0.0, 0.0))


@pytest.mark.parametrize("method", ["wn", "ap2"])
def test_gradients_are_orthogonal_to_the_weights_but_adams_steps_are_not(method):
    """Footnote 2: the norm grows with each step. So it is with plain descent; Adam's steps can shorten weights."""
    shortened = 0
    for seed in range(4):
        torch.manual_seed(seed)
        network = build(method, widths=[9, 7]).train()
        weight = next(module.weight for module in network.modules() if isinstance(module, nn.Linear))
        assert analytic_layers(network)
        x, y = torch.randn(32, 12, dtype=torch.float64), torch.randint(4, (32,))
        F.cross_entropy(network(x), y).backward()
        assert ((weight * weight.grad).sum(1).abs() < 1e-9 * weight.grad.norm(dim=1)).all()
        before = weight.detach().norm(dim=1)
        descent = (weight - RATE * weight.grad).norm(dim=1)
        assert (descent[weight.grad.norm(dim=1) > 0] > before[weight.grad.norm(dim=1) > 0]).all()
        torch.optim.Adam([weight], lr=1e-3).step()
        shortened += int((weight.detach().norm(dim=1) < before).sum())
    assert shortened > 9  # of 36 units
