"""Source E is an exponential average over the mini-batches of inference: NumPy loops over five of them in float64."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction
from bln_search.core.errors import ModelError
from bln_search.core.method import StatisticSource
from bln_search.evaluation.network_state import NetworkState
from bln_search.norms import BN, BRN, MBN, make_norm
from bln_search.norms.network.folding import find_folding_obstacle
from tests.norms import oracle
from tests.norms.test_normalization import configure, layer_and_formula, random_input
from tests.support.tiers import latin

SHAPES = {"(N, D)": (5, 4), "(N, C, H, W)": (5, 4, 2, 3)}
WEIGHTS = [PopulationWeight(0.9), PopulationWeight(16, is_prior=True)]
VARIANTS = [("bn", "paper"), ("bn", "reference"), ("bln", "paper"), ("bln", "reference"), ("ln", "paper")]
CODES = {
    "bn": ["EE--", "ET--", "FE--", "EB--"],
    "bln": ["EEFF", "EEEE", "ETFE", "FETB"],
    "ln": ["--EE", "--FE", "--ET", "--BE"],
}
STREAM = range(20, 25)


def make_moving(method="bn", semantics="paper", shape=(5, 4), code="EE--", weight=WEIGHTS[0], *, per_slot=False):
    """A layer with a population and a weight, and the formula and population of the oracle."""
    layer, formula = layer_and_formula(method, semantics, shape)
    population = configure(layer, formula, code.replace("E", "T").replace("B", "T"), shape=shape, per_slot=per_slot)
    layer.configure(InferenceConfiguration(code), blend=weight)
    formula.alpha = weight.population_share(shape[0])
    return layer, formula, population


def outputs(layer, seeds=STREAM, shape=(5, 4)):
    return [layer(random_input(shape, seed)).detach() for seed in seeds]


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("weight", WEIGHTS, ids=str)
@pytest.mark.parametrize(("variant", "shape"), latin(VARIANTS, list(SHAPES.values())))
def test_five_mini_batches_equal_the_recursion(variant, shape, weight, position):
    method, semantics = variant
    code = CODES[method][position]
    layer, formula, population = make_moving(method, semantics, shape, code, weight)
    for seed in STREAM:
        x = random_input(shape, seed)
        expected = formula(x.numpy(), code, population)
        np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-10, atol=1e-10)
        population = oracle.moved_population(formula, x.numpy(), code, population)


@pytest.mark.parametrize(("method", "code"), [("bn", "EE--"), ("bn", "ET--"), ("bln", "EEEE"), ("ln", "--EE")])
def test_a_stream_that_is_reset_at_each_mini_batch_is_a_blend(method, code):
    moving, _, _ = make_moving(method, code=code)
    blended, _, _ = make_moving(method, code=code.replace("E", "B"))
    for seed in STREAM:
        bln_search.reset_stream(nn.Sequential(moving))
        assert torch.equal(outputs(moving, [seed])[0], outputs(blended, [seed])[0])


@pytest.mark.parametrize(("weight", "letter"), [(1e-12, "F"), (1 - 1e-12, "T")])
@pytest.mark.parametrize("code", ["EEFF", "EEEE", "TTEE"])
def test_weights_near_the_ends_give_mini_batch_and_population(code, weight, letter):
    layer, _, _ = make_moving("bln", "reference", code=code, weight=PopulationWeight(weight))
    moved = outputs(layer)
    layer.configure(InferenceConfiguration(code.replace("E", letter)))
    for x, y in zip(moved, outputs(layer), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8)


def test_a_copy_continues_the_stream_alone():
    layer, _, _ = make_moving()
    expected = outputs(copy.deepcopy(layer))
    outputs(layer, STREAM[:2])
    clone = copy.deepcopy(layer)
    assert [torch.equal(*pair) for pair in zip(outputs(clone, STREAM[2:]), expected[2:], strict=True)] == [True] * 3
    assert torch.equal(outputs(layer, STREAM[2:3])[0], expected[2])


def test_the_stream_is_no_part_of_the_state_dict_and_training_does_not_move_it():
    layer, _, _ = make_moving()
    first = outputs(copy.deepcopy(layer), [20])[0]
    outputs(layer)
    moved, layer.records_history = layer.moving_values, False
    outputs(layer.train())
    assert layer.moving_values is moved
    restored = make_norm("bn", 4).double()
    restored.load_state_dict(layer.state_dict())
    assert restored.moving_values is None
    assert torch.equal(outputs(restored.eval(), [20])[0], first)


def test_configure_begins_a_stream_and_moving_the_layer_converts_its_values():
    layer, _, _ = make_moving()
    outputs(layer)
    assert {value.dtype for value in layer.float().moving_values.values()} == {torch.float32}
    layer.configure(layer.configuration)
    assert layer.moving_values is None


def test_gradients_flow_through_the_present_mini_batch_only():
    layer, _, _ = make_moving()
    for seed in STREAM:
        layer(random_input((5, 4), seed).requires_grad_()).square().sum().backward()
    assert not any(value.requires_grad for value in layer.moving_values.values())


def test_the_state_of_a_network_has_its_streams():
    layer, _, _ = make_moving()
    network = nn.Sequential(layer)
    state = NetworkState(network)
    first = outputs(network)
    later = NetworkState(network)
    assert not state.is_current
    state.restore()
    assert state.is_current
    assert torch.equal(outputs(network)[0], first[0])
    later.restore()
    assert layer.moving_values is not None
    assert later.is_current


def test_slots_without_an_example_keep_their_values():
    layer, _, _ = make_moving("ln", "reference", code="--EE", per_slot=True)
    outputs(layer)
    before = layer.moving_values
    outputs(layer, [30], (3, 4))
    for statistic, value in layer.moving_values.items():
        assert torch.equal(value[3:], before[statistic][3:])
        assert not torch.equal(value[:3], before[statistic][:3])


@pytest.mark.parametrize("kind", [BRN, MBN])
def test_methods_with_a_history_have_moving_statistics(kind):
    layer = kind(4).double()
    outputs(layer.train())
    moments = next(iter(layer.moments_by_estimate_from_history().values()))
    layer.eval().configure(InferenceConfiguration("TT--"), layer.compute_population(moments, Correction.TOTAL))
    mean, variance = layer.population_batch_mean, layer.population_batch_deviation.square()
    layer.configure(InferenceConfiguration("EE--"), blend=PopulationWeight(0.9))
    for seed in STREAM:
        x = random_input((5, 4), seed)
        mean = 0.9 * mean + 0.1 * x.mean(0)
        variance = 0.9 * variance + 0.1 * (x.var(0, correction=0) + layer.eps)
        expected = (x - mean) / variance.sqrt()
        torch.testing.assert_close(outputs(layer, [seed])[0], expected, rtol=1e-10, atol=1e-10)


def test_running_statistics_of_a_replaced_layer_begin_the_stream():
    torch_layer = nn.BatchNorm1d(4).double()
    outputs(torch_layer)
    network = bln_search.convert(nn.Sequential(torch_layer), method="same").eval()
    network[0].configure(InferenceConfiguration("EE--"), blend=PopulationWeight(0.9))
    mean, variance = torch_layer.running_mean, torch_layer.running_var + torch_layer.eps
    for seed in STREAM:
        x = random_input((5, 4), seed)
        mean = 0.9 * mean + 0.1 * x.mean(0)
        variance = 0.9 * variance + 0.1 * (x.var(0, correction=0) + torch_layer.eps)
        torch.testing.assert_close(network(x), (x - mean) / variance.sqrt(), rtol=1e-10, atol=1e-10)
    assert torch.equal(network[0].running_mean, torch_layer.running_mean)


def test_half_precision_moves_in_single_precision():
    layer = BN(4).half().eval()
    layer.population_batch_mean = layer.population_batch_deviation = torch.ones(1, 4)
    layer.configure(InferenceConfiguration("EE--"), blend=PopulationWeight(0.5))
    assert layer(random_input((5, 4)).half()).dtype == torch.float16
    assert {value.dtype for value in layer.moving_values.values()} == {torch.float32}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_mini_batch_that_is_not_finite_is_forgotten_after_a_reset(bad):
    layer, _, _ = make_moving()
    expected = outputs(layer)
    layer(torch.full((5, 4), bad, dtype=torch.float64))
    assert not outputs(layer)[0].isfinite().any()
    bln_search.reset_stream(layer)
    assert torch.equal(outputs(layer)[0], expected[0])


def test_a_moving_layer_is_not_folded():
    layer, _, _ = make_moving()
    assert "from the mini-batch" in find_folding_obstacle(layer)


def test_its_answers_depend_on_other_examples():
    configurations = [InferenceConfiguration(code) for code in ("EE--", "TTEE", "TTFE", "--ET")]
    assert not any(configuration.is_deterministic for configuration in configurations)
    assert all(configuration.is_moving and configuration.uses_blend for configuration in configurations)
    assert InferenceConfiguration("EBTF").with_mini_batch_for_population == InferenceConfiguration("FFFF")
    assert StatisticSource.MOVING.mixes_stored_value_and_mini_batch


@pytest.mark.filterwarnings("ignore")  # warnings of torch's compiler
def test_a_compiled_layer_moves_as_the_layer_does():
    layer, _, _ = make_moving(code="EE--", weight=WEIGHTS[1])
    expected = outputs(copy.deepcopy(layer))
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="eager")
    for seed, output in zip(STREAM, expected, strict=True):
        torch.testing.assert_close(compiled(random_input((5, 4), seed)).detach(), output, rtol=1e-12, atol=1e-12)


def test_values_of_inference_mode_can_be_read_where_gradients_are_computed():
    layer, _, _ = make_moving(code="EE--")
    expected = outputs(copy.deepcopy(layer))
    with torch.inference_mode():
        outputs(layer, STREAM[:1])
    for seed, output in zip(STREAM[1:], expected[1:], strict=True):
        actual = layer(random_input((5, 4), seed))
        actual.sum().backward()
        assert torch.equal(actual.detach(), output)


def test_a_copy_of_data_parallel_is_refused():
    layer, _, _ = make_moving()
    with pytest.raises(ModelError, match=r"EE--.*without DataParallel"):
        outputs(layer._replicate_for_data_parallel())
