"""With a training configuration, population values are constants and mini-batch statistics carry the gradient."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import make_norm
from bln_search.norms.network.layers import use_configured_sources_in_training
from tests.norms.test_normalization import configure, layer_and_formula, random_input
from tests.support.tiers import latin, thinned

CODES = [(method, str(code)) for method in ("bn", "ln", "bln") for code in all_configurations(Method(method))]
SHAPES = {"(N, D)": (5, 4), "(N, T, D)": (5, 3, 4), "(N, C, H, W)": (5, 4, 2, 3)}


def training_layer(method, code, shape, semantics="paper"):
    """A layer in training mode under `code`, its formula and the population values."""
    layer, formula = layer_and_formula(method, semantics, shape)
    population = configure(layer, formula, code, shape=shape)
    layer.training_configuration = layer.configuration
    return layer.train(), formula, population


@pytest.mark.parametrize(("shape", "semantics"), latin(tuple(SHAPES.values()), ["paper", "reference"]))
@pytest.mark.parametrize(("method", "code"), thinned(CODES, 2, start=1))
def test_training_output_equals_the_formula_of_the_configuration(method, code, shape, semantics):
    layer, formula, population = training_layer(method, code, shape, semantics)
    x = random_input(shape, 77)
    full = code.replace("--", "FF")
    np.testing.assert_allclose(layer(x).detach().numpy(), formula(x.numpy(), full, population), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("method", "code"), thinned(CODES, 2))
def test_gradients_equal_finite_differences(method, code):
    layer, _, _ = training_layer(method, code, (5, 4))

    def output(x, gamma, beta):
        return torch.func.functional_call(layer, {"weight": gamma, "bias": beta}, (x,))

    arguments = (random_input((5, 4), 77), layer.weight.detach().clone(), layer.bias.detach().clone())
    assert torch.autograd.gradcheck(output, [value.requires_grad_() for value in arguments])


@pytest.mark.parametrize(("method", "code"), [("bn", "TT--"), ("ln", "--TT"), ("bln", "TTTT")])
def test_with_population_values_alone_an_example_has_no_gradient_in_another(method, code):
    layer, _, _ = training_layer(method, code, (5, 4))
    x = random_input((5, 4), 77).requires_grad_()
    layer(x)[0].sum().backward()
    assert not x.grad[1:].any()
    assert x.grad[0].abs().sum() > 0


def test_mini_batch_statistics_couple_the_examples():
    layer, _, _ = training_layer("bln", "FTTT", (5, 4))
    x = random_input((5, 4), 77).requires_grad_()
    layer(x)[0].sum().backward()
    assert x.grad[1:].abs().sum() > 0


@pytest.mark.parametrize("method", ["bn", "ln", "bln"])
def test_the_mini_batch_configuration_is_training_as_usual_bit_for_bit(method):
    code = str(all_configurations(Method(method))[-1])
    layer, _, _ = training_layer(method, code, (5, 4))
    x = random_input((5, 4), 77)
    with_configuration = layer(x)
    layer.training_configuration = None
    assert torch.equal(with_configuration, layer(x))


def test_the_context_ends_with_the_usual_rule():
    layer, _, _ = training_layer("bn", "TT--", (5, 4))
    layer.training_configuration = None
    with use_configured_sources_in_training([layer]):
        assert layer.training_configuration == InferenceConfiguration("TT--")
    assert layer.training_configuration is None


def test_population_values_are_used_in_training_without_a_warning_and_are_outdated_afterwards():
    layer, _, _ = training_layer("bn", "TT--", (5, 4))
    x = random_input((5, 4), 77)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x)
        layer(x)
    assert layer.population_outdated
    with pytest.warns(UserWarning, match="trained further"):
        layer.eval()(x)


def test_a_missing_population_value_is_an_error():
    layer = make_norm("bn", 4)
    layer.training_configuration = InferenceConfiguration("TT--")
    with pytest.raises(ModelError, match="no such value"):
        layer(torch.randn(5, 4))


@pytest.mark.parametrize("code", ["MM--", "TM--", "MF--"])
def test_memory_is_constant_and_still_records_the_steps(code):
    layer = make_norm("mbn", 4, memory_size=3).double()
    for seed in range(3):
        layer(random_input((5, 4), seed))
    before = layer.memory.clone()
    population = layer.compute_population(
        next(iter(layer.moments_by_estimate_from_history().values())), Correction.TOTAL
    )
    layer.configure(InferenceConfiguration(code), population)
    layer.origins = {
        s: PopulationEstimate.MEMORY for s in layer.method.statistics if layer.configuration.source_of(s) == "M"
    }
    layer.training_configuration = layer.configuration
    x = random_input((5, 4), 9).requires_grad_()
    layer(x)[0].sum().backward()
    couples = bool(x.grad[1:].any())
    assert couples == ("F" in code)
    torch.testing.assert_close(layer.memory[0, 0], x.detach().mean(0, keepdim=True))
    assert torch.equal(layer.memory[1:], before[:-1])


def test_batch_renormalization_keeps_its_moving_averages_going():
    layer = make_norm("brn", 4).double()
    layer(random_input((5, 4), 0))
    layer.training_configuration = InferenceConfiguration("FF--")
    before = layer.moving.clone()
    layer(random_input((5, 4), 1))
    assert not torch.equal(layer.moving, before)
