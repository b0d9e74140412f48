"""A blended statistic is α·population + (1 - α)·mini-batch: comparison with NumPy loops in float64."""

from __future__ import annotations

import pytest
import torch

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.norms import make_norm
from bln_search.norms.network.folding import find_folding_obstacle
from tests.norms.test_normalization import configure, layer_and_formula, random_input


def make_blended(method, semantics, shape, code, blend):
    """A layer with a population and a blend, and the formula and population of the oracle."""
    layer, formula = layer_and_formula(method, semantics, shape)
    population = configure(layer, formula, code.replace("B", "T"), shape=shape)
    layer.configure(InferenceConfiguration(code), blend=blend)
    formula.alpha = blend.population_share(shape[0])
    return layer, formula, population


@pytest.mark.parametrize("blend", [PopulationWeight(0.1), PopulationWeight(16, is_prior=True)])
def test_state_dict_restores_the_blend(blend):
    layer, _, _ = make_blended("bln", "paper", (5, 4), "BBBB", blend)
    copy = make_norm("bln", 4).double()
    copy.load_state_dict(layer.state_dict())
    x = random_input((3, 4), seed=3)
    assert (copy.configuration, copy.blend) == (layer.configuration, blend)
    assert torch.equal(copy.eval()(x), layer(x))


def test_configuration_without_blend_deletes_the_weight():
    layer, _, _ = make_blended("bn", "paper", (5, 4), "BB--", PopulationWeight(0.1))
    layer.configure(InferenceConfiguration("TT--"))
    assert layer.blend is None


def test_blend_without_a_weight_is_an_error():
    layer, formula = layer_and_formula("bn", "paper", (5, 4))
    configure(layer, formula, "TT--", shape=(5, 4))
    with pytest.raises(ModelError, match="no weight"):
        layer.configure(InferenceConfiguration("BB--"))
    assert layer.configuration == InferenceConfiguration("TT--")


def test_blended_layer_is_not_folded():
    layer, _, _ = make_blended("bn", "paper", (5, 4), "TB--", PopulationWeight(0.1))
    assert "Std_B from the mini-batch" in find_folding_obstacle(layer)
