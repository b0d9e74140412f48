"""The layer of a network without normalization is the bias that the layer in front leaves out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import make_norm
from bln_search.norms.network.folding import copy_with_affine_steps, make_affine_step
from bln_search.norms.network.layers import get_norms_by_name, list_possible_configurations
from bln_search.norms.no_normalization import NoNormalization

SHAPES = {"(N, D)": (5, 4), "(N, T, D)": (5, 3, 4), "(N, C, H, W)": (5, 4, 2, 3)}
WITHOUT = InferenceConfiguration("----")


def layer_with_bias(d, *, feature_axis=None):
    layer = make_norm("none", d, feature_axis=feature_axis).double()
    layer.bias.data = torch.arange(1.0, d + 1, dtype=torch.float64)
    return layer


def test_none_has_one_configuration_which_no_other_method_has():
    assert all_configurations(Method.NONE) == (WITHOUT,)
    assert [method for method in Method if WITHOUT.fits_method(method)] == [Method.NONE]
    assert WITHOUT.is_deterministic
    assert (WITHOUT.num_statistics_from_mini_batch, WITHOUT.uses_population) == (0, False)
    assert InferenceConfiguration("TTFF").restricted_to_statistics_of(Method.NONE) == WITHOUT


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_output_is_input_plus_bias_of_its_feature(shape, training):
    x = torch.randn(shape, dtype=torch.float64)
    layer = layer_with_bias(4).train(training)
    expected = x.numpy().copy()
    feature_axis = len(shape) - 1 if len(shape) == 3 else 1
    for index in np.ndindex(*shape):
        expected[index] += index[feature_axis] + 1
    np.testing.assert_array_equal(layer(x).detach().numpy(), expected)
    folded = make_affine_step(layer)
    np.testing.assert_array_equal(folded(x).numpy(), expected)
    assert not isinstance(folded, NoNormalization)


def test_half_precision_keeps_the_dtype():
    layer = make_norm("none", 4).half()
    assert layer(torch.ones(2, 4, dtype=torch.float16)).dtype == torch.float16


def test_a_wrong_number_of_features_is_an_error():
    with pytest.raises(bln_search.ModelError, match="4"):
        make_norm("none", 4)(torch.ones(2, 5))


def test_state_dict_round_trip_has_no_gamma():
    layer, other = layer_with_bias(4), make_norm("none", 4).double()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.bias, layer.bias)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]


def small_network(method):
    return nn.Sequential(nn.Linear(6, 8, bias=False), make_norm(method, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def test_there_is_no_population_to_collect():
    assert collect_moments_with_frozen_weights(small_network("none"), [torch.randn(4, 6).double()]) == {}


def test_own_network_without_normalization_has_one_deterministic_row():
    network = small_network("none")
    data = [(torch.randn(4, 6).double(), torch.randint(0, 3, (4,))) for _ in range(5)]
    network[1].bias.data.normal_()
    plain = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    plain[0].weight, plain[0].bias, plain[2] = network[0].weight, network[1].bias, network[3]
    ranked = bln_search.evaluate_configurations(network, data, data, batch_sizes=[1, 4])
    assert {row.configuration for row in ranked} == {WITHOUT}
    losses = torch.cat([nn.functional.cross_entropy(plain(x), y, reduction="none") for x, y in data])
    means = [row.row.metrics[Split.VALIDATION].loss.mean for row in ranked]
    assert means == pytest.approx([losses.mean().item()] * len(ranked), abs=1e-12)
    assert ranked.recommended.is_independent
    applied = bln_search.apply_configuration(network, ranked.recommended)
    assert torch.equal(copy_with_affine_steps(applied)(data[0][0]), network.eval()(data[0][0]))


def test_beside_normalized_layers_it_has_no_choice():
    network = nn.Sequential(nn.Linear(6, 8), make_norm("none", 8), nn.Tanh(), make_norm("bn", 8), nn.Linear(8, 3))
    assert list_possible_configurations(get_norms_by_name(network)) == all_configurations(Method.BN)
    data = [(torch.randn(4, 6), torch.randint(0, 3, (4,))) for _ in range(5)]
    network[1].bias.data.normal_()
    ranked = bln_search.evaluate_configurations(network, data, data)
    assert [str(row.configuration) for row in ranked].count("TT--") == 1
    layered = bln_search.search_layers(network, data, data)
    assert layered.record.space.choices[0].option_codes == ("----",)
    assert str(layered.best.configuration).startswith("----.")


def test_converted_network_keeps_beta_only():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.LayerNorm(8), nn.Linear(8, 3))
    beta = network[1].bias.data.normal_().clone()
    x = torch.randn(4, 6)
    converted = bln_search.convert(network, method="none")
    assert [type(layer) for layer in converted[1:3]] == [NoNormalization, NoNormalization]
    expected = converted[3](converted[0](x) + beta)
    assert torch.equal(converted(x), expected)
