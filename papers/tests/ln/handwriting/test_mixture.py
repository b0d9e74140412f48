"""The density of a point: it integrates to one, has finite likelihoods, and its samples have its moments."""

from __future__ import annotations

import pytest
import torch

from bln_search_papers.ln.handwriting.mixture import make_point_density

M = 2


def make_outputs(seed=0):
    return torch.randn(6 * M + 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_density_integrates_to_one():
    outputs = make_outputs() * 0.7
    axis = torch.linspace(-30, 30, 301, dtype=torch.float64)
    x, y = torch.meshgrid(axis, axis, indexing="ij")
    points = torch.stack([x, y], -1)
    by_end = [torch.cat([points, torch.full_like(points[..., :1], end)], -1) for end in (0.0, 1.0)]
    densities = make_point_density(outputs.expand(*points.shape[:-1], -1), M)
    total = sum((-densities.negative_log_likelihood(part)).exp().sum() for part in by_end) * (axis[1] - axis[0]) ** 2
    assert total.item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("scale", [1e3, -1e3])
def test_likelihoods_of_extreme_outputs_are_finite(scale):
    outputs = (torch.ones(6 * M + 1) * scale).requires_grad_()
    with torch.no_grad():
        outputs[3 * M : 5 * M] = -abs(scale)  # logarithms of deviations
    loss = make_point_density(outputs, M).negative_log_likelihood(torch.tensor([20.0, -20.0, 1.0]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(outputs.grad).all()


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_samples_have_the_moments_of_the_mixture(bias):
    outputs = make_outputs(3)
    n = 10_000
    points = make_point_density(outputs.expand(n, -1), M).sample(torch.Generator().manual_seed(0), bias)
    density = make_point_density(outputs, M)
    weights = torch.softmax(density.logits * (1 + bias), 0)
    mean = (weights.unsqueeze(1) * density.means).sum(0)
    second = torch.zeros(2, 2, dtype=torch.float64)
    for weight, center, log_deviation, rho in zip(
        weights, density.means, density.log_deviations, density.correlations, strict=True
    ):
        a, b = (log_deviation - bias).exp().tolist()
        covariance = torch.tensor([[a * a, rho * a * b], [rho * a * b, b * b]], dtype=torch.float64)
        second += weight * (covariance + torch.outer(center, center))
    offsets = points[:, :2]
    torch.testing.assert_close(offsets.mean(0), mean, rtol=0, atol=0.1)
    torch.testing.assert_close(offsets.T @ offsets / n, second, rtol=0.1, atol=0.1)
    assert points[:, 2].mean().item() == pytest.approx(torch.sigmoid(density.end_logits).item(), abs=0.02)
