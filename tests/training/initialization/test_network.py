"""All methods start with one function, that of the scaled network without normalization."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.models.analytic import set_ap2_input_moments
from bln_search.norms import make_norm
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.norms.network.folding import copy_with_affine_steps
from bln_search.norms.network.layers import get_norms_by_name, store_populations_from_moments
from bln_search.norms.no_normalization import NoNormalization
from bln_search.specs.sections.initialization import InitializationSpec
from bln_search.training.initialization import scale_weights_and_set_norm_parameters
from tests.support.tiers import latin, thinned
from tests.training.initialization.networks import METHODS, NETWORKS, batch, build, linear_layers_of, norms_of

STARTS = {
    "none": {"statistics": "none"},
    "bn": {"statistics": "bn"},
    "uniform": {"statistics": "bn", "gain": "uniform"},
    "ap2": {"statistics": "ap2"},
}


def initialized(method, start, name="mlp", *, moments=None, **options):
    network = build(method, name, **options)
    if moments is not None:
        set_ap2_input_moments(network, *moments)
    spec = InitializationSpec.model_validate(STARTS[start])
    scale_weights_and_set_norm_parameters(network, batch(name), spec, seed=5, input_moments=moments)
    return network


@pytest.mark.parametrize(("start", "name"), latin(STARTS, NETWORKS))
def test_all_methods_give_the_outputs_of_the_network_without_normalization(name, start):
    with torch.no_grad():
        outputs = [initialized(method, start, name)(batch(name)).numpy() for method in METHODS]
    assert np.std(outputs[0], axis=0).min() > 1e-4
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["bn", "normprop", "ap2"])
@pytest.mark.parametrize("start", STARTS)
def test_a_layer_behind_the_nonlinearity_preserves_the_function_too(method, start):
    options = {"placement": "after", "activation": "tanh"}
    with torch.no_grad():
        expected, output = (initialized(name, start, **options)(batch()) for name in ("none", method))
    np.testing.assert_allclose(output, expected, rtol=1e-9, atol=1e-9)


def plain_layers(network):
    """Weights and biases of the plain mlp, computed without the package: NumPy, layer by layer."""
    biases = [norm.bias.detach().numpy() for norm in norms_of(network)]
    layers = linear_layers_of(network)
    biases += [layers[-1].bias.detach().numpy()]
    return [(layer.weight.detach().numpy(), bias) for layer, bias in zip(layers, biases, strict=True)]


@pytest.mark.parametrize("start", ["bn", "uniform"])
def test_the_statistics_of_a_mini_batch_scale_layer_by_layer(start):
    scaled = plain_layers(initialized("none", start))
    hidden = batch().flatten(1).numpy()
    generator = torch.Generator().manual_seed(5)
    for position, (drawn, _) in enumerate(plain_layers(build("none"))):
        outputs = hidden @ drawn.T
        gain = np.ones(len(drawn))
        if start == "uniform":
            gain = torch.rand(len(drawn), generator=generator, dtype=torch.float64).numpy()
        factor = gain / np.sqrt(outputs.var(0) + 1e-5)
        np.testing.assert_allclose(scaled[position][0], drawn * factor[:, None], rtol=1e-9)
        np.testing.assert_allclose(scaled[position][1], -outputs.mean(0) * factor, rtol=1e-9, atol=1e-12)
        hidden = np.maximum((outputs - outputs.mean(0)) * factor, 0)


def test_the_statistics_of_the_weights_scale_layer_by_layer():
    rng = np.random.default_rng(3)
    mean, variance = rng.normal(size=(1, 4, 5)), rng.uniform(0.1, 2, size=(1, 4, 5))
    moments = MeanVariance(torch.from_numpy(mean), torch.from_numpy(variance))
    scaled = plain_layers(initialized("none", "ap2", moments=moments))
    mean, variance = mean.ravel(), variance.ravel()
    for position, (drawn, _) in enumerate(plain_layers(build("none"))):
        deviation = np.sqrt(drawn**2 @ variance)
        np.testing.assert_allclose(scaled[position][0], drawn / deviation[:, None], rtol=1e-9)
        np.testing.assert_allclose(scaled[position][1], -(drawn @ mean) / deviation, rtol=1e-9, atol=1e-12)
        # ReLU of a standard normal value
        mean, variance = np.full(len(drawn), 1 / np.sqrt(2 * np.pi)), np.full(len(drawn), (1 - 1 / np.pi) / 2)


def test_weight_normalization_with_bn_statistics_is_data_dependent_initialization():
    drawn, network = build("wn"), initialized("wn", "bn")
    hidden = batch().flatten(1)
    for layer, norm, first in zip(linear_layers_of(network), norms_of(network), linear_layers_of(drawn), strict=False):
        direction = first.weight / first.weight.norm(dim=1, keepdim=True)
        t = hidden @ direction.T
        g = 1 / t.std(0, correction=0)  # Salimans & Kingma 2016, Eq. 5 and 6
        torch.testing.assert_close(norm.weight, g, rtol=1e-4, atol=0)  # without ε
        torch.testing.assert_close(norm.bias, -t.mean(0) * g, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(layer.weight, direction * norm.weight[:, None], rtol=1e-9, atol=0)
        hidden = torch.relu((t - t.mean(0)) * g)


@pytest.mark.parametrize("name", thinned(["mlp", "residual"], 2, start=1))
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(("method", "code"), [("bn", "TT--"), ("wn", "AA--"), ("normprop", "AA--"), ("ap2", "AA--")])
def test_folding_gives_the_plain_weights_back(name, start, method, code):
    network, plain = initialized(method, start, name), initialized("none", start, name)
    layers = get_norms_by_name(network)
    moments = {"frozen": collect_moments_with_frozen_weights(network, [batch(name)])}
    moments["analytic"] = {
        key: history["analytic"]
        for key, layer in layers.items()
        if (history := layer.moments_by_estimate_from_history())
    }
    for layer in layers.values():
        layer.configuration = InferenceConfiguration(code)
    store_populations_from_moments(layers, moments, Correction.TOTAL)
    folded = copy_with_affine_steps(network.eval())
    steps = [step for step in folded.modules() if type(step).__name__ == "AffineStep"]
    shifts = [layer.bias for layer in norms_of(plain)]
    for step, shift in zip(steps, shifts, strict=True):
        torch.testing.assert_close(step.scale.flatten(), torch.ones_like(shift), rtol=1e-9, atol=0)
        torch.testing.assert_close(step.shift.flatten(), shift.detach(), rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        torch.testing.assert_close(folded(batch(name)), plain.eval()(batch(name)), rtol=1e-9, atol=1e-9)


def test_without_preservation_gains_and_biases_stay_and_weights_are_scaled():
    network = build("bln")
    spec = InitializationSpec(statistics="bn", preserve_function=False)
    scale_weights_and_set_norm_parameters(network, batch(), spec, seed=0)
    for layer in norms_of(network):
        assert bool((layer.weight == 1).all())
        assert not layer.bias.any()
    for layer, other in zip(linear_layers_of(network), linear_layers_of(initialized("none", "bn")), strict=True):
        torch.testing.assert_close(layer.weight, other.weight, rtol=1e-12, atol=0)


def test_memory_and_mode_of_the_layers_stay_as_they_were():
    network = initialized("mbn", "bn")
    assert all(layer.memory is None and not layer.population_outdated for layer in norms_of(network))
    assert all(module.training for module in network.modules())
    assert not any(module._forward_hooks or "forward" in vars(module) for module in network.modules())


class Tied(nn.Module):
    """One linear layer, used twice."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), make_norm(norm, 4)

    def forward(self, x):
        return self.linear(torch.relu(self.norm(self.linear(x))))


class SharedGain(nn.Module):
    """Two normalization layers with one γ, as at the time steps of a recurrent cell."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = make_norm("bn", 4), make_norm("bn", 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


class Branches(nn.Module):
    """Python control flow, which cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else self.linear(-x)


@pytest.mark.parametrize(
    ("network", "start", "part"),
    [
        (Tied("bn"), "bn", "layer linear is used more than once"),
        (SharedGain(), "none", "layers first and second share γ or β"),
        (nn.Sequential(nn.Linear(4, 4), make_norm("bln", 4)), "none", r"layer 1 \(bln\): .*preserve_function to false"),
        (
            nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 4)),
            "bn",
            r"layer 1 \(LSTM\) cannot be scaled by the statistics bn",
        ),
        (nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh()), "bn", "layer 0 has neither a bias nor"),
        (Branches(), "ap2", "Branches cannot be traced.*use the statistics bn"),
        (nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2)), "ap2", r"layer 2: .*1 \(GELU\): use the statis"),
    ],
)
def test_what_cannot_be_initialized_is_refused_and_unchanged(network, start, part):
    before = copy.deepcopy(network.state_dict())
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ModelError, match=part):
        scale_weights_and_set_norm_parameters(network, x, InitializationSpec.model_validate(STARTS[start]), seed=0)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items() if value is not None)


def test_a_layer_without_normalization_and_bias_is_refused():
    network = nn.Sequential(nn.Linear(4, 4, bias=False), NoNormalization(4))
    network[1].drop_bias()
    with pytest.raises(ModelError, match=r"layer 1 .*has no bias"):
        scale_weights_and_set_norm_parameters(network, torch.randn(6, 4), InitializationSpec(statistics="bn"), seed=0)
