"""Gradients of MBN equal the backward formulas that its paper prints, with the hats that the print lacks."""

from __future__ import annotations

import numpy as np
import torch

from bln_search.norms import MBN
from bln_search.norms.network.layers import use_history_recording

EPSILON, LAMBDA, ETA, D = 1e-4, 0.6, 0.9, 3
SIZES = (4, 6, 5)
"""Examples of the two remembered mini-batches, older first, and of the current one."""


def case():
    """A layer with two remembered mini-batches, all mini-batches, and the gradient of the loss by the output."""
    generator = torch.Generator().manual_seed(3)
    layer = MBN(D, memory_size=2, memory_decay=ETA, lambda_=LAMBDA, epsilon=EPSILON).double()
    layer.weight.data = torch.randn(D, generator=generator, dtype=torch.float64)
    batches = [torch.randn(n, D, generator=generator, dtype=torch.float64) * (1 + n / 5) + n for n in SIZES]
    with torch.no_grad():
        for x in batches[:-1]:
            layer(x)
    return layer, batches, torch.randn(SIZES[-1], D, generator=generator, dtype=torch.float64)


def printed_gradients(batches, slopes, gamma, k):
    """Return the gradients of feature k by x, γ and β, and the part of that by μ̂ that the paper prints in addition."""
    weights = [LAMBDA * ETA, LAMBDA, 1.0]
    values = [batch[:, k] for batch in batches]
    total = sum(weight * len(of_batch) for weight, of_batch in zip(weights, values, strict=True))
    means = [sum(of_batch) / len(of_batch) for of_batch in values]
    mean = sum(w * len(v) * mu for w, v, mu in zip(weights, values, means, strict=True)) / total
    squares = [sum((value - mean) ** 2 for value in of_batch) for of_batch in values]
    variance = sum(weight * square for weight, square in zip(weights, squares, strict=True)) / total
    root, current = np.sqrt(variance + EPSILON), values[-1]
    by_normalized = [slope * gamma for slope in slopes[:, k]]
    by_variance = -0.5 * sum(
        slope * (value - mean) / root**3 for slope, value in zip(by_normalized, current, strict=True)
    )
    additional = (
        -2
        * by_variance
        * sum(w * len(v) * (mu - mean) for w, v, mu in zip(weights, values, means, strict=True))
        / total
    )
    by_mean = sum(-slope / root for slope in by_normalized) + additional
    by_x = [
        slope / root + by_variance * 2 / total * (value - mean) + by_mean / total
        for slope, value in zip(by_normalized, current, strict=True)
    ]
    normalized = [(value - mean) / root for value in current]
    by_gamma = sum(slope * value for slope, value in zip(slopes[:, k], normalized, strict=True))
    return by_x, by_gamma, sum(slopes[:, k]), additional


def test_gradients_equal_the_printed_formulas():
    layer, batches, slopes = case()
    current = batches[-1].requires_grad_()
    with use_history_recording([layer], False):
        layer(current).backward(slopes)
    arrays = [batch.detach().numpy() for batch in batches]
    for k in range(D):
        gamma = layer.weight.detach().numpy()[k]
        by_x, by_gamma, by_beta, additional = printed_gradients(arrays, slopes.numpy(), gamma, k)
        np.testing.assert_allclose(current.grad[:, k].numpy(), by_x, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(layer.weight.grad[k].item(), by_gamma, rtol=1e-11)
        np.testing.assert_allclose(layer.bias.grad[k].item(), by_beta, rtol=1e-11)
        assert abs(additional) < 1e-13, "μ̂ is the weighted mean, so the term is zero"


def test_without_the_hats_the_gradients_of_gamma_are_others():
    """Printed is Σ ∂l/∂y·x for ∂l/∂γ, where it is Σ ∂l/∂y·x̂."""
    layer, batches, slopes = case()
    with use_history_recording([layer], False):
        layer(batches[-1]).backward(slopes)
    as_printed = (slopes * batches[-1]).sum(0)
    assert ((as_printed - layer.weight.grad).abs() > 0.1).all()
