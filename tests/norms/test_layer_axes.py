"""LN and BLN over the whole layer equal loops over their formulas, in training and in every configuration."""

from __future__ import annotations

import copy
from math import sqrt

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import AffineSharing, Correction, NormalizedAxes
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import BLN, LN, make_norm
from bln_search.norms.moment_collection import use_new_moment_accumulators
from bln_search.norms.network.folding import find_folding_obstacle, make_affine_step
from bln_search.norms.network.unit_positions import expand_unit_parameters_to_inputs
from tests.support.tiers import latin

EPSILON = 1e-4
SHAPES = {
    "(N, C, H, W)": ((5, 3, 2, 4), None),
    "(N, C, D, H, W)": ((4, 3, 2, 1, 2), None),
    "(N, C, L)": ((5, 3, 4), 1),
    "(N, H, W, C)": ((5, 2, 4, 3), -1),
}
METHODS, AFFINE = ["ln", "bln"], ["channel", "unit"]
CODES = {method: [str(code) for code in all_configurations(Method(method))] for method in METHODS}


def random_input(shape, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64) * 2 + 0.5


def make_layer(method, affine, shape, feature_axis, batch_size=None):
    """A layer with random γ and β."""
    feature = 1 if feature_axis is None else feature_axis % len(shape)
    positions = tuple(extent for axis, extent in enumerate(shape) if axis not in (0, feature))
    layer = make_norm(
        method,
        shape[feature],
        axes="layer",
        affine=affine,
        positions=positions if affine == "unit" else None,
        feature_axis=feature_axis,
        batch_size=batch_size,
    ).double()
    generator = torch.Generator().manual_seed(7)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return layer


def channels_first(values, feature_axis):
    """Return (N, C, ...) as an array (N, C, positions)."""
    array = np.moveaxis(np.asarray(values), 1 if feature_axis is None else feature_axis, 1)
    return array.reshape(*array.shape[:2], -1)


def mean_of(values):
    return sum(values) / len(values)


def variance_of(values, centre):
    return sum((value - centre) ** 2 for value in values) / len(values)


def units_of(x, n):
    """All units of an example of x (N, C, P): the H of the LN paper's Eq. 3."""
    return [x[n, c, p] for c in range(x.shape[1]) for p in range(x.shape[2])]


def values_of_channel(x, c):
    """The values of a channel over examples and positions."""
    return [x[n, c, p] for n in range(x.shape[0]) for p in range(x.shape[2])]


def loop(method, x, code, m, gamma, beta, population=None):
    """The layer's output (N, C, P) for x (N, C, P), γ and β (C, P); sources of statistics as in the code."""
    weights = {"ln": (0.0, 1.0), "bln": ((1 - 1 / m - 1e-4) / sqrt(x.shape[1]), (1 / m - 1e-4) / sqrt(x.shape[1]))}
    batch_weight, feature_weight = weights[method]
    out = np.empty_like(x)
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            for p in range(x.shape[2]):
                total = 0.0
                if method == "bln":
                    values = values_of_channel(x, c)
                    mean = population["E_B"][c] if code[0] == "T" else mean_of(values)
                    deviation = sqrt(variance_of(values, mean) + EPSILON)
                    deviation = population["Std_B"][c] if code[1] == "T" else deviation
                    total += batch_weight * (x[n, c, p] - mean) / deviation
                values = units_of(x, n)
                mean = population["E_F"] if code[2] == "T" else mean_of(values)
                deviation = sqrt(variance_of(values, mean) + EPSILON)
                deviation = population["Std_F"] if code[3] == "T" else deviation
                total += feature_weight * (x[n, c, p] - mean) / deviation
                out[n, c, p] = gamma[c, p] * total + beta[c, p]
    return out


def population_of(batches, correction):
    """Population values over mini-batches (N, C, P), N the mini-batch size m of the factor m/(m-1)."""
    m, channels = batches[0].shape[:2]

    def deviation(variances, means):
        if correction == "total":
            return sqrt(mean_of(variances) + variance_of(means, mean_of(means)) + EPSILON)
        return m / (m - 1) * mean_of([sqrt(variance + EPSILON) for variance in variances])

    of_channels = [[values_of_channel(x, c) for x in batches] for c in range(channels)]
    batch_means = [[mean_of(values) for values in channel] for channel in of_channels]
    of_examples = [units_of(x, n) for x in batches for n in range(m)]
    means = [mean_of(values) for values in of_examples]
    return {
        "E_B": [mean_of(values) for values in batch_means],
        "Std_B": [
            deviation([variance_of(v, mean) for v, mean in zip(values, channel_means, strict=True)], channel_means)
            for values, channel_means in zip(of_channels, batch_means, strict=True)
        ],
        "E_F": mean_of(means),
        "Std_F": deviation([variance_of(v, mean) for v, mean in zip(of_examples, means, strict=True)], means),
    }


def affine_of(layer, shape, feature_axis):
    """γ and β as arrays (C, P)."""
    expanded = [
        value.view(layer.broadcast_parameter_shape(len(shape))).expand(shape) for value in (layer.weight, layer.bias)
    ]
    return [channels_first(value.detach(), feature_axis)[0] for value in expanded]


def configure(layer, code, shape, correction):
    """Configure the layer with a population from four mini-batches; return these."""
    batches = [random_input(shape, seed) for seed in range(10, 14)]
    layer.train()
    with use_new_moment_accumulators([layer]) as accumulators, torch.no_grad():
        for x in batches:
            layer(x)
    moments = accumulators[layer].averaged_moments(
        has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
    )
    layer.eval().configure(InferenceConfiguration(code), layer.compute_population(moments, Correction(correction)))
    return batches


@pytest.mark.parametrize("affine", AFFINE)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SHAPES)
def test_training_uses_the_statistics_of_all_units(name, method, affine):
    shape, axis = SHAPES[name]
    layer = make_layer(method, affine, shape, axis)
    x = random_input(shape)
    gamma, beta = affine_of(layer, shape, axis)
    expected = loop(method, channels_first(x, axis), "FFFF", shape[0], gamma, beta)
    np.testing.assert_allclose(channels_first(layer(x).detach(), axis), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "affine", "correction"), latin(SHAPES, AFFINE, ["total", "bessel"]))
@pytest.mark.parametrize(("method", "code"), [(method, code) for method in METHODS for code in CODES[method]])
def test_every_configuration_equals_a_loop(method, code, name, affine, correction):
    shape, axis = SHAPES[name]
    layer = make_layer(method, affine, shape, axis, batch_size=shape[0])
    batches = configure(layer, code, shape, correction)
    x = random_input((2, *shape[1:]), seed=99)
    population = population_of([channels_first(batch, axis) for batch in batches], correction)
    gamma, beta = affine_of(layer, shape, axis)
    expected = loop(method, channels_first(x, axis), code, shape[0], gamma, beta, population)
    np.testing.assert_allclose(channels_first(layer(x).detach(), axis), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("method", "name", "affine"), latin(METHODS, ["(N, C, H, W)", "(N, H, W, C)"], AFFINE))
def test_gradients_equal_finite_differences(name, method, affine):
    shape, axis = SHAPES[name]
    layer = make_layer(method, affine, shape, axis)

    def call_layer(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(call_layer, (random_input(shape).requires_grad_(), layer.weight, layer.bias))


@pytest.mark.parametrize(("shape", "affine"), latin([(5, 4), (5, 3, 4)], AFFINE))
@pytest.mark.parametrize(("method", "code"), [(method, code) for method in METHODS for code in CODES[method]])
def test_without_image_positions_both_axes_are_equal(method, code, affine, shape):
    layers = [make_norm(method, 4, axes=axes, affine=affine).double() for axes in NormalizedAxes]
    for layer in layers:
        configure(layer, code, shape, "bessel")
    x = random_input(shape, seed=99)
    assert torch.equal(layers[0](x), layers[1](x))
    assert layers[1].weight.shape == (4,)


def test_it_equals_layer_and_group_normalization_of_torch():
    x = random_input((4, 3, 5, 6))
    unit = LN(3, axes="layer", affine="unit", positions=(5, 6), epsilon=1e-5).double()
    torch.testing.assert_close(unit(x), nn.LayerNorm((3, 5, 6)).double()(x))
    channel = LN(3, axes="layer", epsilon=1e-5).double()
    torch.testing.assert_close(channel(x), nn.GroupNorm(1, 3).double()(x))


@pytest.mark.parametrize("affine", AFFINE)
@pytest.mark.parametrize("code", ["TFTT", "FFFF"])
def test_a_state_dict_keeps_axes_gains_and_population(code, affine):
    shape = (5, 3, 2, 4)
    layer = make_layer("bln", affine, shape, None)
    configure(layer, code, shape, "bessel")
    x = random_input(shape, seed=99)
    restored = BLN(3, affine=affine).double().eval()
    restored.load_state_dict(layer.state_dict())
    assert restored.normalized_axes is NormalizedAxes.LAYER
    assert torch.equal(restored(x), layer(x))
    assert torch.equal(copy.deepcopy(layer)(x), layer(x))


def test_a_state_dict_of_position_axes_makes_the_layer_one():
    restored = LN(3, axes="layer").double()
    restored.load_state_dict(LN(3).double().state_dict())
    x = random_input((5, 3, 2, 4))
    assert torch.equal(restored(x), LN(3).double()(x))


@pytest.mark.parametrize("affine", AFFINE)
@pytest.mark.parametrize(("method", "code"), [("ln", "--TT"), ("bln", "TTTT")])
def test_population_values_fold_into_one_affine_step(method, code, affine):
    shape = (5, 3, 2, 4)
    layer = make_layer(method, affine, shape, None, batch_size=5)
    configure(layer, code, shape, "bessel")
    x = random_input(shape, seed=99)
    step = make_affine_step(layer)
    torch.testing.assert_close(step(x), layer(x), rtol=1e-12, atol=1e-12)
    assert step.scale.shape == ((1, 3, 1, 1) if affine == "channel" else (1, 3, 2, 4))


def test_statistics_of_the_example_are_not_folded():
    layer = make_layer("ln", "channel", (5, 3, 2, 4), None)
    configure(layer, "--FT", (5, 3, 2, 4), "bessel")
    assert find_folding_obstacle(layer) == "configuration --FT takes E_F from the mini-batch"


def test_one_forward_pass_sets_the_positions_of_a_network():
    norms = [LN(features, axes="layer", affine="unit") for features in (4, 2, 5)]
    network = nn.Sequential(
        norms[0], nn.Conv2d(4, 2, 3), norms[1], nn.Flatten(), nn.Linear(2 * 4 * 3, 5), norms[2]
    ).train()
    norms[0].weight.data = torch.arange(4.0)
    expand_unit_parameters_to_inputs(network, torch.zeros(2, 4, 6, 5))
    assert [layer.weight.shape for layer in norms] == [(4, 6, 5), (2, 4, 3), (5,)]
    assert torch.equal(norms[0].weight, torch.arange(4.0).view(4, 1, 1).expand(4, 6, 5))
    assert network.training
    assert not norms[0].population_outdated


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LN(3, axes="layer", semantics="reference"), "belong to the semantics `paper`"),
        (lambda: BLN(3, affine="unit", semantics="reference"), "belong to the semantics `paper`"),
        (lambda: LN(3, positions=(2, 4)), "are for a layer of images with affine `unit`"),
        (lambda: LN(3, affine="unit", positions=(7,)), "are for a layer of images"),
        (lambda: LN(3, affine="unit", positions=(0, 4)), "are for a layer of images"),
        (lambda: LN(3, affine="unit")(torch.zeros(2, 3, 4, 4)), "does not know the positions of its input"),
        (lambda: LN(3, affine="unit", positions=(2, 4))(torch.zeros(2, 3, 4, 4)), "use inputs of one size"),
        (lambda: LN(3, affine="unit", positions=(2, 4))(torch.zeros(2, 3)), "use inputs of one size"),
        (lambda: LN(3, axes="layer")(torch.zeros(2, 4, 4, 4)), "this layer normalizes 3 features"),
    ],
)
def test_options_that_do_not_fit_are_errors(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_affine_is_named_by_its_enum():
    assert LN(3, affine="unit").affine_sharing is AffineSharing.UNIT
    assert "axes=layer, affine=unit" in repr(LN(3, axes="layer", affine="unit"))
