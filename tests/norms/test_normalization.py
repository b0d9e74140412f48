"""Every layer computes its formula: comparison with NumPy loops in float64."""

from __future__ import annotations

import copy
import operator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.norms import BLN, BN, LN, make_norm
from bln_search.norms.moment_collection import use_new_moment_accumulators
from bln_search.norms.statistics import LayerPopulation, PopulationPair
from tests.norms import oracle
from tests.support.tiers import latin

METHODS = ["bn", "ln", "bln"]
SEMANTICS = ["paper", "reference"]
SHAPES = {"(N, D)": (5, 4), "(N, T, D)": (5, 3, 4), "(N, C, H, W)": (5, 4, 2, 3), "(N, C, D, H, W)": (5, 4, 2, 1, 2)}


def layer_and_formula(method, semantics, shape, m=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    axis = 2 if len(shape) == 3 else 1
    d = shape[axis]
    layer = make_norm(method, d, semantics=semantics, batch_size=m).double()
    layer.weight.data = torch.randn(d, generator=generator, dtype=torch.float64)
    layer.bias.data = torch.randn(d, generator=generator, dtype=torch.float64)
    formula = oracle.Formula(
        method, semantics, d, m or shape[0], layer.weight.detach().numpy(), layer.bias.detach().numpy(), axis
    )
    return layer, formula


def random_input(shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 + 0.5


def train(layer, formula, shape, correction="bessel", *, per_slot=False):
    """Return the population of six mini-batches by the layer, and by the oracle."""
    batches = [random_input(shape, seed) for seed in range(10, 16)]
    layer.train()
    with use_new_moment_accumulators([layer]) as accumulators, torch.no_grad():
        for x in batches:
            layer(x)
    moments = accumulators[layer].averaged_moments(
        has_batch_statistics=layer.has_batch_statistics, has_feature_statistics=layer.has_feature_statistics
    )
    population = layer.eval().compute_population(moments, Correction(correction), per_slot=per_slot)
    return population, oracle.population(formula, [x.numpy() for x in batches], correction, per_slot)


def configure(layer, formula, code, *, correction="bessel", per_slot=False, shape=None):
    """Configure the layer with a population from six mini-batches; return that population by the oracle."""
    population, values = train(layer, formula, shape, correction, per_slot=per_slot)
    layer.configure(InferenceConfiguration(code), population)
    return values


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("method", METHODS)
def test_training_uses_the_statistics_of_the_mini_batch(method, semantics, shape):
    layer, formula = layer_and_formula(method, semantics, shape)
    x = random_input(shape)
    np.testing.assert_allclose(layer(x).detach().numpy(), formula(x.numpy()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("code", ["TTTT", "FFTF", "FFFT"])
def test_per_slot_keeps_one_feature_value_for_each_slot(code):
    shape = SHAPES["(N, C, H, W)"]
    layer, formula = layer_and_formula("bln", "reference", shape, m=5)
    population = configure(layer, formula, code, per_slot=True, shape=shape)
    x = random_input(shape, seed=99)
    np.testing.assert_allclose(layer(x).detach().numpy(), formula(x.numpy(), code, population), rtol=1e-11, atol=1e-11)
    smaller = x[:3]
    np.testing.assert_allclose(
        layer(smaller).detach().numpy(), formula(smaller.numpy(), code, population), rtol=1e-11, atol=1e-11
    )
    with pytest.raises(ModelError, match="has 10 examples: use mini-batches of at most 5"):
        layer(torch.cat([x, x]))


def test_branch_weights_use_the_training_size_at_inference():
    layer, formula = layer_and_formula("bln", "reference", (5, 4), m=25)
    layer.eval()
    x = random_input((5, 4))
    np.testing.assert_allclose(layer(x).detach().numpy(), formula(x.numpy()), rtol=1e-12)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("method", METHODS)
def test_a_mini_batch_of_one_never_yields_a_nan(method, semantics):
    for shape in SHAPES.values():
        layer, formula = layer_and_formula(method, semantics, (1, *shape[1:]))
        x = random_input((1, *shape[1:]))
        outputs = layer(x)
        assert torch.isfinite(outputs).all()
        np.testing.assert_allclose(outputs.detach().numpy(), formula(x.numpy()), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("shape", "semantics", "method"), latin(tuple(SHAPES.values()), SEMANTICS, METHODS))
def test_gradients_equal_finite_differences(method, semantics, shape):
    layer, _ = layer_and_formula(method, semantics, shape)
    x = random_input(shape).requires_grad_()

    def call_layer(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(call_layer, (x, layer.weight, layer.bias))


def test_batch_normalization_agrees_with_torch():
    layer, torch_layer = BN(4, epsilon=1e-5).double(), torch.nn.BatchNorm2d(4, momentum=None).double()
    x = random_input((6, 4, 3, 3))
    torch.testing.assert_close(layer(x), torch_layer(x))
    with use_new_moment_accumulators([layer]) as accumulators:
        layer(x)
    moments = accumulators[layer].averaged_moments(has_batch_statistics=True, has_feature_statistics=False)
    layer.configure(all_configurations(Method.BN)[0], layer.compute_population(moments, Correction.BESSEL))
    torch.testing.assert_close(layer.eval()(x), torch_layer.eval()(x))


def test_layer_normalization_agrees_with_torch():
    x = random_input((6, 5, 4))
    torch.testing.assert_close(LN(4, epsilon=1e-5).double()(x), torch.nn.LayerNorm(4).double()(x))


@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_layer_normalization_is_invariant_to_shift_and_scale(scale, shift):
    x = random_input((3, 8))
    layer = LN(8, epsilon=1e-12).double()
    torch.testing.assert_close(layer(x * scale + shift), layer(x), rtol=1e-4, atol=1e-4)


@given(seed=st.integers(0, 2**31))
def test_feature_statistics_are_independent_of_other_examples(seed):
    x = random_input((6, 4), seed)
    layer = LN(4).double().eval()
    torch.testing.assert_close(layer(x)[:1], layer(x[:1]))


def test_a_state_dict_restores_configuration_and_population():
    layer, formula = layer_and_formula("bln", "reference", (5, 4, 2, 3))
    configure(layer, formula, "TFTT", shape=(5, 4, 2, 3))
    restored = BLN(4, semantics="reference").double().eval()
    restored.load_state_dict(layer.state_dict())
    x = random_input((5, 4, 2, 3))
    assert str(restored.configuration) == "TFTT"
    layer.batch_size = 25
    restored.load_state_dict(layer.state_dict())
    assert restored.batch_size == 25
    torch.testing.assert_close(restored(x), layer(x), rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(layer)(x), layer(x), rtol=0, atol=0)


def test_a_state_dict_says_which_values_come_from_the_weights():
    layer = BN(4).double().eval()
    values = LayerPopulation(PopulationPair(torch.ones(1, 4), torch.full((1, 4), 2.0)), None)
    layer.configure(InferenceConfiguration("AF--"), values)
    restored = BN(4).double().eval()
    restored.load_state_dict(layer.state_dict())
    x = random_input((5, 4))
    torch.testing.assert_close(restored(x), layer(x), rtol=0, atol=0)
    restored.load_state_dict(BN(4).double().state_dict())
    assert not restored.origins


def test_a_state_dict_of_another_method_is_an_error():
    with pytest.raises(ModelError, match=r"FF--.*bln layer"):
        BLN(3).load_state_dict(BN(3).state_dict())


def test_a_partial_state_dict_keeps_the_population():
    layer, formula = layer_and_formula("bln", "reference", (5, 4))
    configure(layer, formula, "TTTT", shape=(5, 4))
    network = torch.nn.Sequential(layer, torch.nn.Linear(4, 2).double())
    network.load_state_dict({"1.bias": torch.zeros(2)}, strict=False)
    assert torch.isfinite(network(random_input((5, 4)))).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BLN(0), "one feature, not 0"),
        (lambda: BLN(3, batch_size=0), "at least 1, not 0"),
        (lambda: BLN(3)(torch.randn(2, 4)), "num_features=4"),
        (lambda: BLN(3)(torch.randn(3)), r"\(N, D\), \(N, T, D\), .*, not one of 1"),
        (lambda: BLN(3)(torch.randn(2, 3, 1, 1, 1, 1)), "not one of 6"),
        (lambda: BLN(3).configure(all_configurations(Method.BN)[0]), "^configuration TT-- .* bln layer"),
    ],
)
def test_wrong_use_is_an_error(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_a_missing_population_is_an_error():
    layer = BLN(3).eval()
    layer.configure(all_configurations(Method.BLN)[0])
    with pytest.raises(ModelError, match=r"TTTT .* E_B .* population"):
        layer(torch.randn(2, 3))


def test_the_epsilon_of_a_layer_equals_no_other():
    """Torch's encoder layers bypass two norms of equal ε."""
    layer, other = BLN(3), BLN(3)
    assert operator.ne(layer.eps, other.eps)
    assert not operator.eq(layer.eps, other.eps)
    assert float(layer.eps) == 1e-4
