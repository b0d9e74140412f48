"""Layers of torch alone compute the outputs of configured layers, wherever torch has such a layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.norms import make_norm
from bln_search.norms.network.plain_layers import copy_with_plain_layers, make_plain_layer
from tests.norms.network.test_folding import FOLDABLE, random_input, trained_layer

IMAGES, EXAMPLES, SEQUENCES, VOLUMES = (5, 4, 2, 3), (5, 4), (5, 3, 4), (5, 4, 2, 3, 2)


def assert_same_outputs(plain, layer, shape):
    plain.eval()
    for n in (1, 5, 7):
        x = random_input((n, *shape[1:]), 99)
        torch.testing.assert_close(plain(x).detach(), layer(x).detach(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("shape", "kind"), [(EXAMPLES, nn.BatchNorm1d), (IMAGES, nn.BatchNorm2d), (VOLUMES, nn.BatchNorm3d)]
)
@pytest.mark.parametrize("method", FOLDABLE)
def test_population_values_are_a_batch_norm(method, shape, kind):
    layer, population = trained_layer(method, "paper", shape)
    layer.configure(InferenceConfiguration(FOLDABLE[method]), population)
    plain = make_plain_layer(layer, torch.Size(shape))
    assert type(plain) is kind
    assert plain.running_mean.dtype == torch.float64
    assert_same_outputs(plain, layer, shape)


def test_batch_norm_has_the_parameters_and_population_of_bn():
    layer, population = trained_layer("bn", "paper", IMAGES)
    layer.configure(InferenceConfiguration("TT--"), population)
    plain = make_plain_layer(layer, torch.Size(IMAGES))
    torch.testing.assert_close(plain.weight.data, layer.weight.data)
    torch.testing.assert_close(plain.bias.data, layer.bias.data)
    deviation = population.batch.deviation.flatten()
    torch.testing.assert_close(plain.running_var, deviation.square() - plain.eps)


@pytest.mark.parametrize(
    ("shape", "options", "kind"),
    [
        (EXAMPLES, {}, nn.LayerNorm),
        (SEQUENCES, {}, nn.LayerNorm),
        (IMAGES, {"feature_axis": -1}, nn.LayerNorm),
        (IMAGES, {"axes": "layer"}, nn.GroupNorm),
        (IMAGES, {"axes": "layer", "affine": "unit", "positions": (2, 3)}, nn.LayerNorm),
    ],
)
def test_statistics_of_the_example_are_a_layer_norm(shape, options, kind):
    axis = options.get("feature_axis", 2 if len(shape) == 3 else 1)
    layer = make_norm("ln", shape[axis], **options).double().eval()
    layer.weight.data, layer.bias.data = random_input(layer.weight.shape, 0), random_input(layer.bias.shape, 1)
    layer.configure(InferenceConfiguration("--FF"))
    plain = make_plain_layer(layer, torch.Size(shape))
    assert type(plain) is kind
    assert_same_outputs(plain, layer, shape)


@pytest.mark.parametrize(
    ("method", "code", "shape", "semantics"),
    [
        ("bn", "FF--", IMAGES, "paper"),
        ("bln", "TTFF", IMAGES, "paper"),
        ("bln", "TFFT", EXAMPLES, "paper"),
        ("ln", "--FT", EXAMPLES, "paper"),
        ("ln", "--FF", IMAGES, "paper"),
        ("bn", "TT--", SEQUENCES, "paper"),
        ("bln", "TTTT", IMAGES, "reference"),
    ],
)
def test_what_torch_does_not_have_is_no_plain_layer(method, code, shape, semantics):
    layer, population = trained_layer(method, semantics, shape)
    layer.configure(InferenceConfiguration(code), population)
    assert make_plain_layer(layer, torch.Size(shape)) is None


def test_network_with_a_module_of_bln_search_or_an_unreached_layer_has_no_plain_copy():
    layer, population = trained_layer("bn", "paper", EXAMPLES)
    layer.configure(InferenceConfiguration("TT--"), population)
    network = nn.Sequential(nn.Identity(), layer)
    x = random_input(EXAMPLES, 99)
    plain = copy_with_plain_layers(network, lambda network: network(x))
    torch.testing.assert_close(plain(x), network(x))
    assert copy_with_plain_layers(layer, lambda layer: layer(x))(x).shape == x.shape
    assert copy_with_plain_layers(network, lambda _: None) is None
    network.append(nn.Sequential()).append(type("Own", (nn.Identity,), {"__module__": "bln_search.models.own"})())
    assert copy_with_plain_layers(network, lambda network: network(x)) is None
