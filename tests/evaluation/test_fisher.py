"""The curvature of `compute_directional_fisher_curvature` is vᵀF(θ)v, F by gradients; the LN paper's Eq. 13-14."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from bln_search.evaluation.fisher import compute_directional_fisher_curvature, use_training_mode_in_norms_only
from bln_search.norms import BLN, BN, LN
from bln_search.norms.no_normalization import NoNormalization

N, D, H, CLASSES = 12, 5, 4, 3


def dense_network(norm: type[nn.Module], *, epsilon: float = 1e-4) -> nn.Sequential:
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Linear(D, H, bias=False), norm(H, epsilon=epsilon), nn.Tanh(), nn.Dropout(), nn.Linear(H, CLASSES)
    )
    return network.double()


def inputs() -> Tensor:
    return torch.randn(N, D, generator=torch.Generator().manual_seed(2)).double()


def fisher_matrix(network: nn.Module, x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Return E_n E_{y~p_n}[∇ log p_n(y) ∇ log p_n(y)ᵀ] by a gradient for every example and class, Eq. 9."""
    with use_training_mode_in_norms_only(network):
        log_probabilities = network(x).log_softmax(1)
    total = torch.zeros(())
    for row in log_probabilities:
        for value in row:
            gradients = torch.autograd.grad(value, parameters, retain_graph=True)
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            total = total + value.detach().exp() * torch.outer(flat, flat) / len(x)
    return total


@pytest.mark.parametrize("norm", [NoNormalization, BN, LN, BLN])
def test_curvature_is_the_quadratic_form_of_the_fisher_matrix(norm: type[nn.Module]) -> None:
    network, x = dense_network(norm), inputs()
    parameters = dict(network.named_parameters())
    direction = {name: torch.randn_like(parameter) for name, parameter in parameters.items()}
    matrix = fisher_matrix(network, x, list(parameters.values()))
    flat = torch.cat([direction[name].flatten() for name in parameters])
    expected = float(flat @ matrix @ flat)
    assert compute_directional_fisher_curvature(network, x, direction) == pytest.approx(expected, rel=1e-10)
    alone = {"0.weight": direction["0.weight"]}
    block = matrix[: H * D, : H * D]
    v = alone["0.weight"].flatten()
    assert compute_directional_fisher_curvature(network, x, alone) == pytest.approx(float(v @ block @ v), rel=1e-10)


def normalized_glm(norm: type[nn.Module]) -> nn.Sequential:
    """A normalized linear classifier without ε: logits g·(a − μ)/σ + b."""
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(D, CLASSES, bias=False), norm(CLASSES, epsilon=0.0)).double()
    nn.init.uniform_(network[1].weight, 0.5, 2.0)
    return network


def published_block(network: nn.Sequential, x: Tensor, i: int, j: int, axis: int) -> Tensor:
    """Return the weight part of F̄_ij by Eq. 13-14; μ and σ over the mini-batch (axis 0) or over the units (axis 1)."""
    weight, gain = network[0].weight.detach(), network[1].weight.detach()
    a = x @ weight.T
    mean, deviation = a.mean(axis, keepdim=True), a.std(axis, correction=0, keepdim=True)
    normalized = (a - mean) / deviation
    with use_training_mode_in_norms_only(network), torch.no_grad():
        p = network(x).softmax(1)
    covariance = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    chi = []
    for unit in (i, j):
        if axis == 0:
            mean_slope = x.mean(0)
            deviation_slope = (normalized[:, unit, None] * (x - x.mean(0))).mean(0)
        else:
            mean_slope = x / CLASSES
            deviation_slope = normalized[:, unit, None] * x / CLASSES
        centred = x - mean_slope - normalized[:, unit, None] * deviation_slope
        chi.append(gain[unit] / deviation.expand_as(a)[:, unit, None] * centred)
    return torch.einsum("n,nd,ne->de", covariance[:, i, j], chi[0], chi[1]) / len(x)


def weight_blocks(network: nn.Sequential, x: Tensor) -> Tensor:
    """Return the Fisher matrix of the weights as blocks (i, j) of the units: (H, H, D, D)."""
    matrix = fisher_matrix(network, x, [network[0].weight])
    return matrix.view(CLASSES, D, CLASSES, D).permute(0, 2, 1, 3)


def test_published_fisher_blocks_hold_for_batch_normalization() -> None:
    network, x = normalized_glm(BN), inputs()
    blocks = weight_blocks(network, x)
    for i in range(CLASSES):
        for j in range(CLASSES):
            torch.testing.assert_close(blocks[i, j], published_block(network, x, i, j, axis=0), rtol=1e-9, atol=1e-12)


def test_published_fisher_blocks_miss_the_shared_statistics_of_layer_normalization() -> None:
    """μ and σ of LN are shared: ∂ā_j/∂w_i is not 0 for j ≠ i. With these terms the block is right."""
    network, x = normalized_glm(LN), inputs()
    gain, a = network[1].weight.detach(), x @ network[0].weight.detach().T
    deviation = a.std(1, correction=0, keepdim=True)
    normalized = (a - a.mean(1, keepdim=True)) / deviation
    with use_training_mode_in_norms_only(network), torch.no_grad():
        p = network(x).softmax(1)
    covariance = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    blocks = weight_blocks(network, x)
    for i in range(CLASSES):
        unit = torch.eye(CLASSES)[i].double()
        slopes = gain / deviation * (unit - 1 / CLASSES - normalized * normalized[:, i, None] / CLASSES)
        complete = torch.einsum("njk,nj,nk,nd,ne->de", covariance, slopes, slopes, x, x) / len(x)
        torch.testing.assert_close(blocks[i, i], complete, rtol=1e-9, atol=1e-12)
        published = published_block(network, x, i, i, axis=1)
        assert (published - complete).norm() > 0.1 * complete.norm()


def test_doubled_weights_of_a_unit_quarter_its_block_and_not_halve_it() -> None:
    """§5.2.2 says a factor of 1/2; that is the factor of the blocks off the diagonal."""
    network, x = normalized_glm(BN), inputs()
    before = weight_blocks(network, x)
    with torch.no_grad():
        network[0].weight[0] *= 2
    after = weight_blocks(network, x)
    torch.testing.assert_close(after[0, 0], before[0, 0] / 4, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(after[0, 1], before[0, 1] / 2, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(after[1, 1], before[1, 1], rtol=1e-9, atol=1e-12)


def test_curvature_along_the_weights_of_a_unit_is_zero_under_batch_normalization_only() -> None:
    x = inputs()
    for norm, is_zero in ((BN, True), (LN, False), (NoNormalization, False)):
        network = normalized_glm(norm) if norm is not NoNormalization else plain_classifier()
        direction = torch.zeros_like(network[0].weight)
        direction[0] = network[0].weight[0].detach()
        curvature = compute_directional_fisher_curvature(network, x, {"0.weight": direction})
        assert (curvature < 1e-20) == is_zero
        scaled_layer = compute_directional_fisher_curvature(network, x, {"0.weight": network[0].weight.detach()})
        assert (scaled_layer < 1e-20) == (norm is not NoNormalization)


def plain_classifier() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(D, CLASSES, bias=False), NoNormalization(CLASSES)).double()


def test_a_doubled_row_under_layer_normalization_scales_its_block_by_no_fixed_factor() -> None:
    """σ of LN is not the unit's own, so that its block is not divided by 4."""
    network, x = normalized_glm(LN), inputs()
    before = weight_blocks(network, x)[0, 0].trace()
    with torch.no_grad():
        network[0].weight[0] *= 2
    assert not 0.2 < float(weight_blocks(network, x)[0, 0].trace() / before) < 0.3


@pytest.mark.parametrize("norm", [BN, LN])
def test_curvature_along_the_gains_does_not_depend_on_the_scale_of_the_inputs(norm: type[nn.Module]) -> None:
    """The magnitude of plain weights depends on it: with inputs of twice the size and half the weights, by 4."""
    network, x = normalized_glm(norm), inputs()
    direction = {"1.weight": torch.ones(CLASSES).double()}
    assert compute_directional_fisher_curvature(network, 2 * x, direction) == pytest.approx(
        compute_directional_fisher_curvature(network, x, direction)
    )
    plain = plain_classifier()
    unit = {"0.weight": plain[0].weight.detach() / plain[0].weight.detach().norm()}
    before = compute_directional_fisher_curvature(plain, x, unit)
    with torch.no_grad():
        plain[0].weight /= 2
    assert compute_directional_fisher_curvature(plain, 2 * x, unit) == pytest.approx(4 * before)


def test_the_network_is_left_as_it_was() -> None:
    network, x = dense_network(BN), inputs()
    network.train()
    state = {name: value.clone() for name, value in network.state_dict().items()}
    compute_directional_fisher_curvature(network, x, {"0.weight": torch.ones(H, D).double()})
    assert all(module.training for module in network.modules())
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
