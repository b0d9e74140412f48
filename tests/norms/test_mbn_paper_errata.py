"""Errors and ambiguities of the MBN paper (Guo et al. 2018), in numbers: docs/mbn.md lists them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.norms import BN, MBN

EPSILON = 1e-5
LAMBDA, DECAY, SIZE, FEATURES = 0.6, 0.8, 5, 3


def mini_batches(count):
    generator = torch.Generator().manual_seed(7)
    return [
        torch.randn(SIZE, FEATURES, generator=generator, dtype=torch.float64) * (1 + step) + step
        for step in range(count)
    ]


def memory_weights(entries, lambda_=LAMBDA):
    """α_i of Eq. 8 for the remembered mini-batches, oldest first, then 1 for the current one."""
    return np.array([*(lambda_ * DECAY ** (entries - 1 - age) for age in range(entries)), 1.0])


class Step:
    """One training step of MBN over a memory of four mini-batches, its statistics by Eq. 6, and gradients at y."""

    def __init__(self):
        *earlier, current = mini_batches(5)
        self.layer = MBN(FEATURES, memory_size=4, memory_decay=DECAY, lambda_=LAMBDA, epsilon=EPSILON).double()
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([1.5, -0.5, 2.0]))
            for x in earlier:
                self.layer(x)
        self.gamma = self.layer.weight.detach().numpy()
        x = current.clone().requires_grad_()
        y = self.layer(x)
        generator = torch.Generator().manual_seed(1)
        self.gradient_y = torch.randn(y.shape, generator=generator, dtype=torch.float64)
        y.backward(self.gradient_y)
        self.gradient_x, self.gradient_gamma = x.grad.numpy(), self.layer.weight.grad.numpy()
        self.gradient_y = self.gradient_y.numpy()
        self.x = current.numpy()
        self.means = np.stack([batch.numpy().mean(0) for batch in (*earlier, current)])
        variances = np.stack([batch.numpy().var(0) for batch in (*earlier, current)])
        self.values = memory_weights(len(earlier)) * SIZE
        self.total = self.values.sum()
        self.mean = self.values @ self.means / self.total
        self.variance = self.values @ ((self.means - self.mean) ** 2 + variances) / self.total
        self.root = np.sqrt(self.variance + EPSILON)
        self.normalized = (self.x - self.mean) / self.root

    def backward(self, *, gradient_in_sums, x_in_variance, vanishing_term=True):
        """∂l/∂x by the paper's formulas.

        Args:
            gradient_in_sums: the factor ∂l/∂x in the sums of ∂l/∂σ̂² and ∂l/∂μ̂.
            x_in_variance: the mini-batch in the sum of ∂l/∂σ̂².
            vanishing_term: whether ∂l/∂μ̂ has the term with Σ α n (μ_i − μ̂).
        """
        by_variance = -0.5 * (gradient_in_sums * (x_in_variance - self.mean) * self.root**-3).sum(0)
        by_mean = -(gradient_in_sums / self.root).sum(0)
        if vanishing_term:
            by_mean = by_mean - 2 * by_variance * (self.values @ (self.means - self.mean)) / self.total
        by_normalized = self.gradient_y * self.gamma
        return by_normalized / self.root + by_variance * 2 / self.total * (self.x - self.mean) + by_mean / self.total


def relative_difference(first, second):
    return np.abs(first - second).max() / np.abs(second).max()


def test_backward_pass_with_hats_is_the_gradient_of_the_layer():
    step = Step()
    by_normalized = step.gradient_y * step.gamma
    gradient = step.backward(gradient_in_sums=by_normalized, x_in_variance=step.x)
    assert relative_difference(gradient, step.gradient_x) < 1e-13
    gamma_gradient = (step.gradient_y * step.normalized).sum(0)
    assert relative_difference(gamma_gradient, step.gradient_gamma) < 1e-13


def test_gradient_of_the_layer_is_that_of_finite_differences():
    """Through the current mini-batch alone: the memory is constant."""
    step = Step()
    layer = MBN(FEATURES, memory_size=4, memory_decay=DECAY, lambda_=LAMBDA, epsilon=EPSILON).double()
    for x in mini_batches(4):
        layer(x)
    layer.requires_grad_(False)
    memory, sizes = layer.memory, list(layer._sizes)

    def forward(x):
        layer.memory, layer._sizes, layer._pooled = memory, sizes, None
        return layer(x)

    assert torch.autograd.gradcheck(forward, torch.tensor(step.x, requires_grad=True))


def test_printed_backward_pass_without_hats_is_not_the_gradient():
    """As printed, the sums contain ∂l/∂x where ∂l/∂x̂ belongs, and the gradient of γ contains x where x̂ belongs."""
    step = Step()
    printed = step.backward(gradient_in_sums=step.gradient_x, x_in_variance=step.x)
    assert relative_difference(printed, step.gradient_x) > 0.05
    printed_gamma = (step.gradient_y * step.x).sum(0)
    assert relative_difference(printed_gamma, step.gradient_gamma) > 0.5


def test_printed_index_of_the_mini_batch_in_the_variance_is_not_the_gradient():
    """The paper prints x_k, the newest entry of the memory, for x_{k+1}, the current mini-batch."""
    step = Step()
    previous = mini_batches(4)[-1].numpy()
    printed = step.backward(gradient_in_sums=step.gradient_y * step.gamma, x_in_variance=previous)
    assert relative_difference(printed, step.gradient_x) > 0.05


def test_term_with_the_distances_of_the_means_is_zero():
    """Σ α n (μ_i − μ̂) = 0 by the definition of μ̂: the last term of ∂l/∂μ̂ changes nothing."""
    step = Step()
    distances = step.values[:, None] * (step.means - step.mean)
    assert np.abs(distances.sum(0)).max() < 1e-14 * np.abs(distances).sum(0).max() * len(distances)
    by_normalized = step.gradient_y * step.gamma
    options = {"gradient_in_sums": by_normalized, "x_in_variance": step.x}
    without = step.backward(**options, vanishing_term=False)
    assert relative_difference(without, step.gradient_x) < 1e-13


def inference_shares(lambda_, decay, size):
    """Weights of the memory, newest first, under M (memory alone) and L (last step), sum 1."""
    layer = MBN(1, memory_size=size, memory_decay=decay, lambda_=lambda_).double()
    for step in range(size):
        layer(torch.full((4, 1), float(step), dtype=torch.float64))
    memory, last_step = layer._decayed_weights_by_age(torch.float64), layer._last_step_weights(torch.float64)
    return memory.numpy(), last_step.numpy()


@pytest.mark.parametrize(("lambda_", "share"), [(0.1, 0.54), (0.5, 0.19), (0.9, 0.11)])
def test_share_of_the_newest_mini_batch_depends_on_the_reading(lambda_, share):
    """k = 20, η = 0.9: under M 11 % for every λ; under L 54 % for λ = 0.1."""
    memory, last_step = inference_shares(lambda_, 0.9, 20)
    assert memory[0] == pytest.approx(1 / sum(0.9**age for age in range(20)))
    assert round(memory[0], 2) == 0.11
    assert last_step[0] == pytest.approx(1 / (1 + lambda_ * sum(0.9**age for age in range(19))))
    assert round(last_step[0], 2) == share


def test_readings_agree_where_lambda_is_the_decay():
    memory, last_step = inference_shares(0.9, 0.9, 20)
    np.testing.assert_allclose(last_step, memory, rtol=1e-14)


def test_lambda_zero_is_bn_of_the_mini_batch():
    """Table 5 gives λ = 0 the error of BN in Table 1, 6.97: its inference is then not that of the memory."""
    *earlier, current = mini_batches(4)
    mbn, bn = MBN(FEATURES, lambda_=0.0, epsilon=EPSILON).double(), BN(FEATURES, epsilon=EPSILON).double()
    for x in earlier:
        mbn(x)
    assert torch.equal(mbn(current), bn(current))
    memory, last_step = inference_shares(0.0, 0.9, 20)
    assert last_step[0] == 1
    assert memory[0] < 0.12
