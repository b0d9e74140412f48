"""Fisher matrix and metric of the LN paper by NumPy loops: Eq. 8, 9, 12, 32-35, and where they are printed wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from bln_search.evaluation.fisher import compute_directional_fisher_curvature
from bln_search.norms import BN, LN
from bln_search.norms.no_normalization import NoNormalization

N, D, H = 7, 3, 4


def inputs():
    return torch.randn(N, D, generator=torch.Generator().manual_seed(5)).double()


def classifier(norm=NoNormalization):
    """Logits a = Wx, normalized without ε where `norm` is a method with γ."""
    torch.manual_seed(4)
    network = nn.Sequential(nn.Linear(D, H, bias=False), norm(H, epsilon=0.0)).double()
    if norm is not NoNormalization:
        nn.init.uniform_(network[1].weight, 0.5, 2.0)
    return network


def probabilities(logits):
    """Softmax by loops."""
    p = np.empty_like(logits)
    for n in range(len(logits)):
        total = sum(math.exp(value) for value in logits[n])
        p[n] = [math.exp(value) / total for value in logits[n]]
    return p


def covariance(p, i, j):
    """Cov[y_i, y_j | x] of the one-hot class."""
    return p[i] * (1 - p[i]) if i == j else -p[i] * p[j]


def metric(p, changes):
    """Mean over examples of Σ_ij Cov[y_i, y_j | x] ż_i ż_j, for the change ż (N, H) of the summed inputs (φ = 1)."""
    total = 0.0
    for n in range(len(p)):
        for i in range(H):
            for j in range(H):
                total += covariance(p[n], i, j) * changes[n, i] * changes[n, j]
    return total / len(p)


def logits_of(network, x):
    return network.train()(x).detach().numpy()


def test_curvature_is_eq_12():
    """F = E[Cov ⊗ xxᵀ] as loops over units and inputs; the network is linear without normalization."""
    network, x = classifier(), inputs()
    p = probabilities(logits_of(network, x))
    direction = torch.randn(H, D, generator=torch.Generator().manual_seed(6)).double()
    v, values = direction.numpy(), x.numpy()
    expected = 0.0
    for n in range(N):
        for i in range(H):
            for j in range(H):
                for a in range(D):
                    for b in range(D):
                        expected += v[i, a] * covariance(p[n], i, j) * values[n, a] * values[n, b] * v[j, b] / N
    assert compute_directional_fisher_curvature(network, x, {"0.weight": direction}) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("norm", [NoNormalization, BN, LN])
def test_curvature_is_eq_9(norm):
    """E[(vᵀ∇ log p(y))²] over examples and classes, with ∇ log p(y) by central differences."""
    network, x = classifier(norm), inputs()
    direction = torch.randn(H, D, generator=torch.Generator().manual_seed(6)).double()
    start, step = network[0].weight.detach().clone(), 1e-6
    logs = []
    for sign in (1, -1):
        network[0].weight.data = start + sign * step * direction
        logs.append(np.log(probabilities(logits_of(network, x))))
    network[0].weight.data = start
    p = probabilities(logits_of(network, x))
    expected = 0.0
    for n in range(N):
        for y in range(H):
            expected += p[n, y] * ((logs[0][n, y] - logs[1][n, y]) / (2 * step)) ** 2 / N
    assert compute_directional_fisher_curvature(network, x, {"0.weight": direction}) == pytest.approx(
        expected, rel=1e-7
    )


@pytest.mark.parametrize("norm", [NoNormalization, BN, LN])
def test_half_the_curvature_is_the_divergence_of_eq_8(norm):
    network, x = classifier(norm), inputs()
    direction = torch.randn(H, D, generator=torch.Generator().manual_seed(6)).double()
    curvature = compute_directional_fisher_curvature(network, x, {"0.weight": direction})
    before, step = probabilities(logits_of(network, x)), 1e-4
    network[0].weight.data += step * direction
    after = probabilities(logits_of(network, x))
    divergence = 0.0
    for n in range(N):
        for y in range(H):
            divergence += before[n, y] * math.log(before[n, y] / after[n, y]) / N
    assert divergence == pytest.approx(step**2 / 2 * curvature, rel=5e-3)


def gains():
    return torch.randn(H, generator=torch.Generator().manual_seed(8)).double()


@pytest.mark.parametrize(("norm", "axis"), [(BN, 0), (LN, 1)])
def test_curvature_along_the_gains_has_the_normalized_inputs(norm, axis):
    """Eq. 33 for LN. Eq. 32 for BN prints E[Cov] alone, without the factors (a_i − μ_i)(a_j − μ_j)/(σ_i σ_j)."""
    network, x, delta = classifier(norm), inputs(), gains()
    a = x.numpy() @ network[0].weight.detach().numpy().T
    normalized = (a - a.mean(axis, keepdims=True)) / a.std(axis, keepdims=True)
    p = probabilities(logits_of(network, x))
    curvature = compute_directional_fisher_curvature(network, x, {"1.weight": delta})
    assert curvature == pytest.approx(metric(p, normalized * delta.numpy()), rel=1e-12)
    as_printed_for_bn = metric(p, np.ones_like(a) * delta.numpy())
    assert abs(as_printed_for_bn / curvature - 1) > 0.1


def test_curvature_along_the_gains_of_weight_normalization_is_eq_34():
    network, x, delta = classifier(), inputs(), gains()
    weights = network[0].weight.detach().numpy().copy()
    weight_norm(network[0])
    a = x.numpy() @ weights.T
    lengths = np.array([math.sqrt(sum(value**2 for value in row)) for row in weights])
    p = probabilities(a)
    direction = {"0.parametrizations.weight.original0": delta[:, None]}
    expected = metric(p, a / lengths * delta.numpy())
    assert compute_directional_fisher_curvature(network, x, direction) == pytest.approx(expected, rel=1e-12)


def test_eq_35_prints_one_of_the_four_terms_of_two_units():
    """The metric for the weights of units i and j is the sum over (i, i), (i, j), (j, i), (j, j); printed is (i, j)."""
    network, x, delta = classifier(), inputs(), gains()
    i, j = 0, 2
    weight = network[0].weight.detach()
    lengths = weight.norm(dim=1)
    direction = torch.zeros(H, D).double()
    for unit in (i, j):
        direction[unit] = delta[unit] * weight[unit] / lengths[unit]
    a = x.numpy() @ weight.numpy().T
    p = probabilities(a)

    def term(r, s):
        values = [covariance(p[n], r, s) * a[n, r] * a[n, s] for n in range(N)]
        scale = delta[r] * delta[s] / (lengths[r] * lengths[s])
        return float(scale) * sum(values) / N

    curvature = compute_directional_fisher_curvature(network, x, {"0.weight": direction})
    assert curvature == pytest.approx(term(i, i) + term(i, j) + term(j, i) + term(j, j), rel=1e-12)
    assert abs(term(i, j) / curvature - 1) > 0.1
