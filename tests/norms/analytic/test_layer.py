"""Layers with statistics from the weights: training, configurations, state, gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.method import Method
from bln_search.norms.network.folding import copy_with_affine_steps
from bln_search.norms.network.layers import (
    compute_populations_of_layers,
    get_norms_by_name,
    list_possible_configurations,
)
from bln_search.norms.statistics import select_layer_population
from tests.models.analytic.networks import analytic_layers, build

METHODS = ("wn", "normprop", "ap2")


class WeightNormalized(nn.Module):
    """The network of `build("wn")` with torch's weight normalization: w = g·v/‖v‖, bias b."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
        self.hidden = nn.ModuleList()
        for source, layer in zip(linear[:-1], analytic_layers(network), strict=True):
            copied = nn.Linear(source.in_features, source.out_features, dtype=torch.float64)
            with torch.no_grad():
                copied.weight.copy_(source.weight)
                copied.bias.copy_(layer.bias)
            copied = weight_norm(copied)
            with torch.no_grad():
                copied.parametrizations.weight.original0.copy_(layer.weight[:, None])
            self.hidden.append(copied)
        self.output = nn.Linear(linear[-1].in_features, linear[-1].out_features, dtype=torch.float64)
        self.output.load_state_dict(linear[-1].state_dict())

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return self.output(x)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_weight_normalization_trains_as_that_of_torch_step_by_step(optimizer):
    network = build("wn", widths=[9, 7]).train()
    for layer in analytic_layers(network):
        layer.formula_variant = layer.formula_variant.__class__(**{**layer.formula_variant.__dict__, "epsilon": 0.0})
    other = WeightNormalized(network)
    optimizers = [optimizer(module.parameters(), lr=0.05) for module in (network, other)]
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        x = torch.randn(8, 12, generator=generator, dtype=torch.float64)
        y = torch.randint(4, (8,), generator=generator)
        losses = [F.cross_entropy(module(x), y) for module in (network, other)]
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-10, atol=1e-10)
        for loss, update in zip(losses, optimizers, strict=True):
            update.zero_grad()
            loss.backward()
            update.step()


@pytest.mark.parametrize("method", METHODS)
def test_gradients_flow_through_mean_and_deviation(method):
    network = build(method, widths=[5, 4], activation="tanh" if method == "wn" else "relu").train()
    x = torch.randn(6, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    names = [name for name, _ in network.named_parameters()]
    values = tuple(parameter.detach().clone().requires_grad_() for parameter in network.parameters())
    assert torch.autograd.gradcheck(
        lambda *parameters: functional_call(network, dict(zip(names, parameters, strict=True)), (x,)), values, atol=1e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_training_and_evaluation_agree_and_use_no_mini_batch(method):
    network = build(method)
    x = torch.randn(10, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    trained = network.train()(x)
    torch.testing.assert_close(network.eval()(x), trained)
    torch.testing.assert_close(network(x[:1]), trained[:1])


@pytest.mark.parametrize("method", METHODS)
def test_nine_configurations_with_their_own_order(method):
    codes = [str(configuration) for configuration in all_configurations(Method(method))]
    assert codes == ["AA--", "AT--", "AF--", "TA--", "TT--", "TF--", "FA--", "FT--", "FF--"]
    assert list_possible_configurations(get_norms_by_name(build(method))) == all_configurations(Method(method))


def configured(network: nn.Module, code: str, x: Tensor) -> Tensor:
    """The outputs under a configuration, population values of the mini-batch `x`."""
    layers = get_norms_by_name(network)
    moments = {
        str(PopulationEstimate.ANALYTIC): {
            name: layer.moments_by_estimate_from_history()["analytic"] for name, layer in layers.items()
        }
    }
    populations = compute_populations_of_layers(layers, moments, Correction.TOTAL, per_slot=False)
    configuration = InferenceConfiguration(code)
    for layer in layers.values():
        layer.configure(configuration, select_layer_population(configuration, None, populations[layer]))
    return network.eval()(x)


@pytest.mark.parametrize("method", METHODS)
def test_stored_values_give_the_outputs_of_the_present_weights(method):
    network = build(method)
    x = torch.randn(10, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    present = network.eval()(x)
    torch.testing.assert_close(configured(network, "AA--", x), present, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(copy_with_affine_steps(network)(x), present, rtol=1e-10, atol=1e-10)
    loaded = build(method)
    loaded.load_state_dict(network.state_dict())
    torch.testing.assert_close(loaded.eval()(x), present, rtol=1e-12, atol=1e-12)
    assert all(
        layer.origins == get_norms_by_name(network)[name].origins for name, layer in get_norms_by_name(loaded).items()
    )
    with torch.no_grad():  # stored values stay, those of the present weights follow
        for layer in analytic_layers(loaded):
            layer.weight.mul_(2)
    assert not torch.allclose(loaded(x), present)


@pytest.mark.parametrize("method", METHODS)
def test_mini_batch_sources_are_those_of_batch_normalization(method):
    network = build(method, widths=[6])
    x = torch.randn(10, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    linear, layer, output = network.layers[1], analytic_layers(network)[0], network.layers[-1]
    summed = x @ linear.weight.T
    mean, variance = layer.input_moments_from_weights()
    for code, centre, deviation in (
        ("FF--", summed.mean(0), (summed.var(0, unbiased=False) + 1e-12).sqrt()),
        ("FA--", summed.mean(0), (variance + 1e-12).sqrt()),
        ("AF--", mean, (summed.var(0, unbiased=False) + 1e-12).sqrt()),
    ):
        expected = output(torch.relu((summed - centre) / deviation * layer.weight + layer.bias))
        torch.testing.assert_close(configured(network, code, x), expected, rtol=1e-10, atol=1e-10)
