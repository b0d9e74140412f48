"""A layer that uses population values only is folded into one affine step with the same outputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import make_norm
from bln_search.norms.moment_collection import use_new_moment_accumulators
from bln_search.norms.network.folding import AffineStep, copy_with_affine_steps, find_folding_obstacle, make_affine_step

SHAPES = {"(N, D)": (5, 4), "(N, T, D)": (5, 3, 4), "(N, C, H, W)": (5, 4, 2, 3)}
FOLDABLE = {"bln": "TTTT", "bn": "TT--", "brn": "TT--", "ln": "--TT", "mbn": "MM--"}


def random_input(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 + 0.5


def trained_layer(method, semantics, shape, *, per_slot=False):
    """Return a layer with random γ and β, and its population from six mini-batches (for MBN from the memory)."""
    d = shape[2] if len(shape) == 3 else shape[1]
    layer = make_norm(method, d, semantics=semantics, batch_size=shape[0]).double()
    layer.weight.data, layer.bias.data = random_input((d,), 0), random_input((d,), 1)
    with use_new_moment_accumulators([layer]) as accumulators, torch.no_grad():
        for seed in range(10, 16):
            layer.train()(random_input(shape, seed))
    moments = accumulators[layer].averaged_moments(
        has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
    )
    if method == "mbn":
        moments = layer.moments_by_estimate_from_history()[PopulationEstimate.MEMORY]
    return layer.eval(), layer.compute_population(moments, Correction.TOTAL, per_slot=per_slot)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("method", FOLDABLE)
def test_the_affine_step_equals_the_layer(method, semantics, shape):
    layer, population = trained_layer(method, semantics, shape)
    layer.configure(InferenceConfiguration(FOLDABLE[method]), population)
    step = make_affine_step(layer)
    for n in (1, 5, 7):
        x = random_input((n, *shape[1:]), 99)
        assert step.scale.ndim == len(shape)
        torch.testing.assert_close(step(x), layer(x).detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("code", ["MT--", "TM--", "TT--"])
def test_memory_and_population_values_are_folded(code):
    layer, population = trained_layer("mbn", "paper", (5, 4))
    layer.configure(InferenceConfiguration(code), population)
    layer.origins = {
        statistic: PopulationEstimate.MEMORY
        for statistic in layer.method.statistics
        if layer.configuration.source_of(statistic) == "M"
    }
    x = random_input((3, 4), 99)
    torch.testing.assert_close(make_affine_step(layer)(x), layer(x).detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", FOLDABLE)
def test_mini_batch_statistics_are_not_folded(method):
    layer, population = trained_layer(method, "paper", (5, 4))
    not_foldable = [configuration for configuration in all_configurations(Method(method)) if "F" in str(configuration)]
    assert len(not_foldable) >= 3
    for configuration in not_foldable:
        layer.configure(configuration, population)
        assert "from the mini-batch" in find_folding_obstacle(layer)
        with pytest.raises(ModelError, match=f"cannot be folded .* {configuration}"):
            make_affine_step(layer)


def test_per_slot_values_are_not_folded():
    layer, population = trained_layer("bln", "paper", (5, 4), per_slot=True)
    layer.configure(InferenceConfiguration("TTTT"), population)
    with pytest.raises(ModelError, match="5 slots"):
        make_affine_step(layer)


def test_missing_values_and_batch_size_are_folding_errors():
    layer = make_norm("bln", 4, batch_size=5)
    layer.configure(InferenceConfiguration("TTTT"))
    with pytest.raises(ModelError, match=r"TTTT .* E_B"):
        make_affine_step(layer)
    layer, population = trained_layer("bln", "paper", (5, 4))
    layer.configure(InferenceConfiguration("TTTT"), population)
    layer.batch_size = None
    with pytest.raises(ModelError, match="batch_size=m"):
        make_affine_step(layer)


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3)])
def test_a_converted_batch_norm_folds_for_every_shape(shape):
    torch.manual_seed(0)
    batch_norm = nn.BatchNorm1d(4).double()
    batch_norm(random_input(shape, 0))
    converted = bln_search.convert(batch_norm, method="same").eval()
    x = random_input(shape, 1)
    torch.testing.assert_close(make_affine_step(converted)(x), batch_norm.eval()(x).detach(), rtol=1e-12, atol=1e-12)


def test_a_network_is_folded_as_a_copy():
    layer, population = trained_layer("bln", "paper", (5, 4))
    layer.configure(InferenceConfiguration("TTTT"), population)
    network = nn.Sequential(nn.Tanh(), layer).eval()
    folded = copy_with_affine_steps(network)
    x = random_input((3, 4), 5)
    torch.testing.assert_close(folded(x), network(x).detach(), rtol=1e-12, atol=1e-12)
    assert isinstance(folded[1], AffineStep)
    assert network[1] is layer
    assert isinstance(copy_with_affine_steps(layer), AffineStep)
    layer.configure(InferenceConfiguration("TTFT"), population)
    with pytest.raises(ModelError, match=r"^layer 1: .* E_F"):
        copy_with_affine_steps(network)
