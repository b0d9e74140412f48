"""Each analytic layer finds the weights in front of it, whatever is between them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.models import build_model
from bln_search.models.activations import SlopedReLU
from bln_search.models.analytic import bind_analytic_layers, set_ap2_input_moments
from bln_search.norms import make_norm
from bln_search.norms.analytic.layer import NormalizationFromWeights
from tests.models.analytic.networks import analytic_layers, build
from tests.support.tiers import thinned

C1, C2 = np.sqrt((1 - 1 / np.pi) / 2), 1 / np.sqrt(2 * np.pi)


def expected_moments(layer: NormalizationFromWeights) -> tuple[np.ndarray, np.ndarray]:
    mean, variance = layer.input_moments_from_weights()
    return mean.detach().numpy().ravel(), variance.detach().numpy().ravel()


@pytest.mark.parametrize("name", thinned(["mlp", "resnet8", "vgg16", "nin", "resnet18"], 2, start=1))
def test_weight_normalization_is_the_norm_of_the_weights_of_each_unit(name):
    network = build("wn", name, (12,) if name == "mlp" else (3, 32, 32))
    linear = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    layers = analytic_layers(network)
    # the weights in front are those before the norm in the order of construction, except for shortcuts
    by_units = {}
    for module in linear:
        by_units.setdefault(module.weight.shape[0], []).append(module)
    for layer in layers:
        mean, variance = expected_moments(layer)
        assert not mean.any()
        candidates = [module.weight.detach().flatten(1).square().sum(1).numpy() for module in by_units[len(mean)]]
        assert any(np.allclose(variance, candidate, rtol=1e-12) for candidate in candidates)


def test_normalization_propagation_has_the_constants_of_relu():
    network = build("normprop", widths=[9, 7])
    first, second = analytic_layers(network)
    weights = [module.weight.detach().numpy() for module in network.modules() if isinstance(module, nn.Linear)]
    mean, variance = expected_moments(first)
    np.testing.assert_allclose(mean, 0)
    np.testing.assert_allclose(variance, (weights[0] ** 2).sum(1), rtol=1e-12)
    mean, variance = expected_moments(second)
    np.testing.assert_allclose(mean, C2 * weights[1].sum(1), rtol=1e-12)
    np.testing.assert_allclose(variance, C1**2 * (weights[1] ** 2).sum(1), rtol=1e-12)


def test_variance_propagation_follows_gains_biases_and_inputs():
    network = build("ap2", shape=(2, 2, 3), widths=[9, 7])
    first, second = analytic_layers(network)
    weights = [module.weight.detach().numpy() for module in network.modules() if isinstance(module, nn.Linear)]
    rng = np.random.default_rng(0)
    input_mean, input_variance = rng.normal(size=(2, 2, 3)), rng.uniform(0.1, 2, size=(2, 2, 3))
    set_ap2_input_moments(network, torch.from_numpy(input_mean), torch.from_numpy(input_variance))
    with torch.no_grad():
        first.weight.copy_(torch.from_numpy(rng.normal(size=9)))
        first.bias.copy_(torch.from_numpy(rng.normal(size=9)))
    mean, variance = expected_moments(first)
    np.testing.assert_allclose(mean, weights[0] @ input_mean.ravel(), rtol=1e-12)
    np.testing.assert_allclose(variance, weights[0] ** 2 @ input_variance.ravel(), rtol=1e-12)
    # ReLU of N(β, γ²) by numerical integration, then Eq. 3a and 3b
    nodes = np.linspace(-12, 12, 200_001)
    density = np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    gamma, beta = first.weight.detach().numpy(), first.bias.detach().numpy()
    values = np.maximum(beta[:, None] + gamma[:, None] * nodes, 0)
    rectified = np.trapezoid(values * density, nodes)
    spread = np.trapezoid((values - rectified[:, None]) ** 2 * density, nodes)
    mean, variance = expected_moments(second)
    np.testing.assert_allclose(mean, weights[1] @ rectified, rtol=1e-7)
    np.testing.assert_allclose(variance, weights[1] ** 2 @ spread, rtol=1e-7)


def test_convolution_is_linear_on_a_patch_also_with_groups():
    network = nn.Sequential(
        nn.Conv2d(4, 6, 3, bias=False), make_norm("ap2", 6), nn.Conv2d(6, 8, 3, groups=2), make_norm("ap2", 8)
    ).double()
    bind_analytic_layers(network, torch.zeros(1, 4, 9, 9, dtype=torch.float64))
    norm, convolution = network[1], network[2]
    with torch.no_grad():
        norm.weight.uniform_(-2, 2)
        norm.bias.normal_()
    gamma, beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    weight, bias = convolution.weight.detach().numpy(), convolution.bias.detach().numpy()
    mean, variance = np.zeros(8), np.zeros(8)
    for k in range(8):
        for c in range(3):
            channel = c + (0 if k < 4 else 3)
            for i in range(3):
                for j in range(3):
                    mean[k] += weight[k, c, i, j] * beta[channel]
                    variance[k] += weight[k, c, i, j] ** 2 * gamma[channel] ** 2
    got = expected_moments(network[3])
    np.testing.assert_allclose(got[0], mean + bias, rtol=1e-12)
    np.testing.assert_allclose(got[1], variance, rtol=1e-12)


class Mixed(nn.Module):
    """Shortcut with other channels, slice, pooling of several kinds, dropout, mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 4, 3, padding=1), make_norm("ap2", 4)
        self.dropout, self.pool = nn.Dropout(0.25), nn.MaxPool2d(2)
        self.second, self.second_norm = nn.Conv2d(4, 6, 1), make_norm("ap2", 6)
        self.activation, self.average = SlopedReLU(), nn.AvgPool2d(2)
        self.third, self.third_norm = nn.Linear(6, 5), make_norm("ap2", 5)

    def forward(self, x):
        x = self.dropout(self.first_norm(self.first(x)))
        shortcut = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, 2))
        x = self.activation(self.second_norm(self.second(self.pool(x))) + shortcut)
        return self.third_norm(self.third(torch.mean(self.average(x), (2, 3))))


def test_every_operation_of_a_mixed_network_agrees_with_sampling():
    torch.manual_seed(0)
    network = bind_analytic_layers(Mixed().double().eval(), torch.zeros(1, 3, 8, 8, dtype=torch.float64))
    x = torch.randn(4000, 3, 8, 8, dtype=torch.float64)
    inputs = {}
    layers = analytic_layers(network)
    for layer in layers:
        layer.register_forward_pre_hook(lambda module, args: inputs.setdefault(module, args[0]))
    with torch.no_grad():
        network(x)
    # zero padding, positions that are correlated, and sums of dependent values are ignored by the rule
    for layer, tolerance in zip(layers, (0.2, 0.3, 0.6), strict=True):
        value = inputs[layer].transpose(1, -1).flatten(0, -2) if inputs[layer].ndim > 2 else inputs[layer]
        mean, variance = (part.detach().flatten() for part in layer.input_moments_from_weights())
        assert (mean - value.mean(0)).abs().max() < 0.15
        assert (variance.sqrt() / value.std(0) - 1).abs().max() < tolerance


@pytest.mark.parametrize(("activation", "worst"), [("relu", 0.35), ("tanh", 0.05)])
def test_propagation_through_ten_layers_agrees_with_sampling_at_initialization(activation, worst):
    network = build("ap2", shape=(100,), widths=[100] * 9, activation=activation, output_norm=True).eval()
    x = torch.randn(10_000, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    inputs = []
    layers = analytic_layers(network)
    assert len(layers) == 10
    for layer in layers:
        layer.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    with torch.no_grad():
        network(x)
    for layer, value in zip(layers, inputs, strict=True):
        ratio = layer.input_moments_from_weights().variance.detach().sqrt().flatten() / value.std(0)
        assert abs(float(ratio.median()) - 1) < 0.05
        assert (ratio - 1).abs().max() < worst


def test_copies_and_pickles_of_a_network_read_their_own_weights():
    network = build("ap2")
    for duplicate in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        before = analytic_layers(network)[1].input_moments_from_weights().mean.clone()
        with torch.no_grad():
            for parameter in duplicate.parameters():
                parameter.mul_(3)
        assert not torch.equal(analytic_layers(duplicate)[1].input_moments_from_weights().variance, before)
        torch.testing.assert_close(analytic_layers(network)[1].input_moments_from_weights().mean, before)
        assert {id(p) for p in duplicate.parameters()}.isdisjoint({id(p) for p in network.parameters()})
    assert "propagation" not in dict(network.named_modules())
    assert len(list(network.parameters())) == len({id(p) for p in network.parameters()})


@pytest.mark.parametrize(
    ("method", "name", "shape", "part"),
    [
        ("wn", "lenet", (1, 28, 28), "behind features.2"),
        ("ap2", "gru", (10,), "embedding"),
        ("normprop", "lstm", (10,), "embedding"),
    ],
)
def test_what_cannot_be_propagated_is_refused_by_name(method, name, shape, part):
    vocabulary = 30 if name in ("gru", "lstm") else None
    with pytest.raises(ModelError, match=rf"\({method}\).*{part}"):
        build_model(name, shape, 2, lambda units: make_norm(method, units), seed=0, vocabulary=vocabulary)


class Softmaxed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 4), make_norm("ap2", 4)

    def forward(self, x):
        return self.norm(self.linear(torch.softmax(x, 1)))


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 4), make_norm("ap2", 4)

    def forward(self, x):
        return self.norm(self.linear(x if x.sum() > 0 else -x))


def test_unknown_operations_and_branches_are_refused_by_name():
    with pytest.raises(ModelError, match=r"normalization layer norm \(ap2\).*softmax"):
        bind_analytic_layers(Softmaxed(), torch.zeros(2, 3))
    with pytest.raises(ModelError, match="cannot be traced"):
        bind_analytic_layers(Branching(), torch.zeros(2, 3))


def test_a_layer_that_is_not_bound_says_so():
    with pytest.raises(ModelError, match="does not know the layers in front"):
        nn.Sequential(nn.Linear(3, 4), make_norm("wn", 4))(torch.zeros(2, 3))
