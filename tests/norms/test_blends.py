"""A blended statistic is α·population + (1 - α)·mini-batch: comparison with NumPy loops in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.norms import make_norm
from bln_search.norms.network.folding import find_folding_obstacle
from tests.norms.test_normalization import SEMANTICS, SHAPES, configure, layer_and_formula, random_input
from tests.support.tiers import latin

CODES = {
    "bn": ["BB--", "BF--", "FB--", "TB--", "BT--"],
    "ln": ["--BB", "--BF", "--FB", "--TB", "--BT"],
    "bln": ["BBBB", "FFBB", "BBFF", "BFTB", "TBBF"],
}
CASES = [(method, code) for method, codes in CODES.items() for code in codes]


def make_blended(method, semantics, shape, code, blend):
    """A layer with a population and a blend, and the formula and population of the oracle."""
    layer, formula = layer_and_formula(method, semantics, shape)
    population = configure(layer, formula, code.replace("B", "T"), shape=shape)
    layer.configure(InferenceConfiguration(code), blend=blend)
    formula.alpha = blend.population_share(shape[0])
    return layer, formula, population


@pytest.mark.parametrize(("case", "semantics", "shape"), latin(CASES, SEMANTICS, tuple(SHAPES.values())))
def test_blended_statistics_equal_the_formula(case, semantics, shape):
    method, code = case
    layer, formula, population = make_blended(method, semantics, shape, code, PopulationWeight(0.3))
    x = random_input(shape, seed=99)
    np.testing.assert_allclose(layer(x).detach().numpy(), formula(x.numpy(), code, population), rtol=1e-11, atol=1e-11)


def test_prior_weight_follows_the_mini_batch_size():
    layer, formula, population = make_blended("bn", "paper", (5, 4), "BB--", PopulationWeight(16, is_prior=True))
    for size in (1, 4, 16):
        x = random_input((size, 4), seed=size)
        formula.alpha = 16 / (16 + size)
        np.testing.assert_allclose(
            layer(x).detach().numpy(), formula(x.numpy(), "BB--", population), rtol=1e-11, atol=1e-11
        )


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
