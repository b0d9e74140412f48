"""Population values of BN and BLN layers from the weights agree with loops, and with samples at initialization."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.evaluation.populations import collect_moments_with_frozen_weights
from bln_search.models.analytic import estimate_from_weights
from bln_search.norms import LN, make_norm
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.norms.network.layers import compute_populations_of_layers, evaluation_mode, get_norms_by_name
from bln_search.norms.statistics import select_layer_population
from tests.models.analytic.networks import build

ALL_FROM_WEIGHTS = {"bn": "AA--", "bln": "AAAA"}


def one_layer(method):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 4), make_norm(method, 4, batch_size=8), nn.Linear(4, 2)).double()
    return network, MeanVariance(torch.rand(5).double(), 0.5 + torch.rand(5).double())


def use_values_from_weights(network, example, method):
    """Configure every layer with source A throughout."""
    layers = get_norms_by_name(network)
    moments = {PopulationEstimate.ANALYTIC: estimate_from_weights(network, example)}
    configuration = InferenceConfiguration(ALL_FROM_WEIGHTS[method])
    for layer, values in compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False).items():
        layer.configure(configuration, select_layer_population(configuration, None, values))
    return layers, moments[PopulationEstimate.ANALYTIC]


def test_statistics_of_one_layer_equal_a_loop():
    network, inputs = one_layer("bln")
    moments = estimate_from_weights(network, torch.zeros(8, 5).double(), inputs)["1"]
    weight, bias = network[0].weight.detach().numpy(), network[0].bias.detach().numpy()
    means = [bias[c] + sum(weight[c][j] * inputs.mean[j].item() for j in range(5)) for c in range(4)]
    variances = [sum(weight[c][j] ** 2 * inputs.variance[j].item() for j in range(5)) for c in range(4)]
    np.testing.assert_allclose(moments.batch.mean.flatten(), means, rtol=1e-12)
    np.testing.assert_allclose(moments.batch.variance.flatten(), variances, rtol=1e-12)
    mean = sum(means) / 4
    variance = sum(v + m * m for m, v in zip(means, variances, strict=True)) / 4 - mean**2 - sum(variances) / 16
    np.testing.assert_allclose(moments.feature.mean.flatten(), [mean], rtol=1e-12)
    np.testing.assert_allclose(moments.feature.variance.flatten(), [variance], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "shape", "options", "worst"),
    [
        ("mlp", (200,), {"widths": [64, 48, 32], "placement": "before", "activation": "tanh"}, 0.05),
        ("mlp", (200,), {"widths": [64, 48, 32], "placement": "before", "activation": "relu"}, 0.1),
        ("resnet8", (3, 24, 24), {"widths": [16, 24, 32]}, 0.3),
    ],
)
@pytest.mark.parametrize("method", ["bn", "bln"])
def test_values_agree_with_samples_at_initialization(method, name, shape, options, worst):
    """Every layer then normalizes its input to about mean 0 and deviation 1, as with values over the samples."""
    network = build(method, name, shape, **options)
    samples = torch.randn(4000 if len(shape) == 1 else 100, *shape, generator=torch.Generator().manual_seed(1)).double()
    layers, moments = use_values_from_weights(network, samples[:16], method)
    assert moments.keys() == layers.keys()
    with evaluation_mode(network):
        sampled = collect_moments_with_frozen_weights(network, [samples], kept=layers.keys())
    for key, value in moments.items():
        expected = sampled[key].batch
        total = (expected.variance + expected.variance_of_mean).sqrt()
        assert ((value.batch.mean - expected.mean).abs() / total).median() < worst / 2
        assert (value.batch.variance.sqrt() / total - 1).abs().median() < min(worst, 0.1)
        if method == "bln":
            feature = sampled[key].feature.pooled_over(layers[key].input_axes(len(shape) + 1).population_pooling_axes)
            assert abs(value.feature.variance.sqrt() / feature.variance.sqrt() - 1).max() < worst
            assert (abs(value.feature.mean - feature.mean) / feature.variance.sqrt()).max() < worst


def test_networks_without_such_values_are_refused_by_name():
    example = torch.zeros(4, 5).double()
    twice = nn.Sequential(nn.Linear(5, 5), make_norm("bn", 5)).double()
    twice.append(twice[0]).append(twice[1])
    with pytest.raises(ModelError, match="1 is called twice"):
        estimate_from_weights(twice, example)
    with pytest.raises(ModelError, match="1 is a ln layer"):
        estimate_from_weights(nn.Sequential(nn.Linear(5, 4), LN(4)).double(), example)
    softmax = nn.Sequential(nn.Linear(5, 4), nn.Softmax(1), make_norm("bn", 4)).double()
    with pytest.raises(ModelError, match="Softmax"):
        estimate_from_weights(softmax, example)
    assert estimate_from_weights(nn.Sequential(make_norm("bn", 5), nn.Softmax(1)).double(), example).keys() == {"0"}


@pytest.mark.parametrize(
    ("mean", "variance", "part"),
    [
        (torch.zeros(4), torch.ones(5), r"mean of the inputs has shape \(4,\), an example \(5,\)"),
        (torch.zeros(5), torch.ones(1, 5), r"variance of the inputs has shape \(1, 5\)"),
        (torch.full((5,), torch.nan), torch.ones(5), "mean of the inputs is not finite"),
        (torch.zeros(5), torch.full((5,), torch.inf), "variance of the inputs is not finite"),
        (torch.zeros(5), 1.0, "pair of tensors"),
        (torch.zeros(5), -torch.ones(5), "variance of the inputs is negative"),
    ],
)
def test_impossible_moments_of_inputs_are_refused(mean, variance, part):
    network, _ = one_layer("bn")
    with pytest.raises(ModelError, match=part):
        estimate_from_weights(network, torch.zeros(8, 5).double(), (mean, variance))
