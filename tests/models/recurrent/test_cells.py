"""Normalization inside recurrent cells is what the equations say, in training and at inference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.configuration import InferenceConfiguration, Method, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.evaluation import collect_frozen_moments
from bln_search.norms import LN
from bln_search.norms.network_layers import find_norms, network_populations
from tests.models.recurrent import oracle
from tests.models.recurrent.layers import (
    NORMALIZED,
    PLAIN,
    SIZE,
    STEPS,
    UNITS,
    identity,
    normalized,
    plain,
    sequence,
    step_norms,
    weights_of,
)
from tests.norms.oracle import Formula, population
from tests.support.tiers import latin

CELLS = sorted(PLAIN)
KINDS = [(method, semantics) for method in ("ln", "bn", "bln") for semantics in ("paper", "reference")]
GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def formulas(layer, method, semantics):
    """The formula of each norm of a layer, with its γ and β."""
    found = {}
    for name, norms in step_norms(layer).items():
        gamma, beta = (value.detach().numpy() for value in (norms.of_step[0].weight, norms.of_step[0].bias))
        found[name] = Formula(method, semantics, len(gamma), SIZE, gamma, beta)
    return found


def assert_equal(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cell", CELLS)
def test_a_plain_layer_computes_its_equations(cell):
    layer, x = plain(cell), sequence()
    assert_equal(layer(x), oracle.CELLS[cell](weights_of(layer), x.numpy()), 1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_with_identity_norms_a_layer_equals_the_plain_layer(cell):
    torch.manual_seed(0)
    layer = NORMALIZED[cell](2, UNITS, identity, STEPS).double()
    x = sequence()
    reference = PLAIN[cell](2, UNITS, bias=layer.bias is not None).double()
    reference.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x), reference(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("method", "semantics"), KINDS)
@pytest.mark.parametrize("cell", CELLS)
def test_training_uses_mini_batch_statistics_of_each_step(cell, method, semantics):
    layer, x = normalized(cell, method, semantics).train(), sequence()
    of = formulas(layer, method, semantics)
    expected = oracle.CELLS[cell](weights_of(layer), x.numpy(), lambda name, step, values: of[name](values))
    assert_equal(layer(x), expected)


@pytest.mark.parametrize(("method", "semantics"), KINDS)
@pytest.mark.parametrize("cell", CELLS)
def test_inference_uses_population_values_of_each_step(cell, method, semantics):
    """Under every configuration; the values worked out by the oracle from what each norm got in training."""
    layer = normalized(cell, method, semantics).eval()
    of, weights, run = formulas(layer, method, semantics), weights_of(layer), oracle.CELLS[cell]
    training = [sequence(seed=seed) for seed in (1, 2, 3)]
    seen: dict = {}

    def watched(name, step, values):
        seen.setdefault((name, step), []).append(values)
        return of[name](values)

    for x in training:
        run(weights, x.numpy(), watched)
    values = {key: population(of[key[0]], inputs) for key, inputs in seen.items()}
    layers = find_norms(layer)
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(layer, training)}
    populations = network_populations(layers, gathered, Correction.BESSEL, per_slot=False)
    x = sequence(seed=4)
    for word in all_configurations(Method(method)):
        for norm in layers.values():
            norm.configure(word, populations[norm][PopulationEstimate.FROZEN])
        expected = run(
            weights,
            x.numpy(),
            lambda name, step, rows, word=str(word): of[name](rows, word, values[name, step]),
        )
        assert_equal(layer(x), expected)


@pytest.mark.parametrize(("method", "cell"), latin(["none", "ln", "bn", "bln"], CELLS))
def test_gradients_equal_finite_differences(cell, method):
    layer = plain(cell) if method == "none" else normalized(cell, method)
    x = sequence(n=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda *_: layer(x), (x, *layer.parameters()), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("gain", [None, 0.1])
@pytest.mark.parametrize("cell", CELLS)
def test_gains_start_at_the_given_value_and_biases_at_zero(cell, gain):
    options = {} if gain is None else {"gain": gain}
    layer = NORMALIZED[cell](2, UNITS, LN, STEPS, **options)
    norms = step_norms(layer)
    assert len(norms) == {"rnn": 1, "lstm": 3, "gru": 4}[cell]
    for norm in norms.values():
        assert len(norm.of_step) == STEPS
        assert norm.of_step[0].weight.unique().tolist() == pytest.approx([gain or 1.0])
        assert norm.of_step[0].bias.abs().max() == 0


@pytest.mark.parametrize("cell", CELLS)
def test_initial_weights_are_those_of_the_plain_layer(cell):
    """The same seed gives the same first weights; only an LSTM has a bias beside those of its norms."""
    one, other = PLAIN[cell](2, UNITS), NORMALIZED[cell](2, UNITS, LN, STEPS)
    for layer in (one, other):
        layer.initialize(torch.Generator().manual_seed(7))
    assert torch.equal(one.weight_input, other.weight_input)
    assert torch.equal(one.weight_hidden, other.weight_hidden)
    assert one.weight_hidden.shape == (GATES[cell] * UNITS, UNITS)
    assert (other.bias is None) == (cell != "lstm")


@pytest.mark.parametrize("cell", CELLS)
def test_shorter_sequences_are_valid_and_longer_are_an_error(cell):
    layer = normalized(cell, "ln")
    x = sequence(steps=STEPS + 1)
    torch.testing.assert_close(layer(x[:, : STEPS - 1]), layer(x[:, :STEPS])[:, : STEPS - 1])
    with pytest.raises(ModelError, match=r"for 3 .*step 4"):
        layer(x)


@given(seed=st.integers(0, 10_000), cell=st.sampled_from(CELLS))
def test_layer_normalized_cells_treat_examples_independently(seed, cell):
    layer = normalized(cell, "ln")
    x, other = sequence(seed=seed), sequence(seed=seed + 1)
    mixed = torch.cat([x[:1], other[1:]])
    torch.testing.assert_close(layer(mixed)[:1], layer(x)[:1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer(x[:1]), layer(x)[:1], rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 10_000), cell=st.sampled_from(CELLS))
def test_batch_normalized_cells_depend_on_the_batch_unless_tt(seed, cell):
    layer = normalized(cell, "bn").eval()
    layers = find_norms(layer)
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(layer, [sequence(seed=seed + 2)])}
    populations = network_populations(layers, gathered, Correction.BESSEL, per_slot=False)
    x, other = sequence(seed=seed), sequence(seed=seed + 1)
    mixed = torch.cat([x[:1], other[1:]])
    for word in ("FF--", "TT--"):
        for norm in layers.values():
            norm.configure(InferenceConfiguration(word), populations[norm][PopulationEstimate.FROZEN])
        difference = (layer(mixed)[:1] - layer(x)[:1]).abs().max()
        assert (difference < 1e-12) == (word == "TT--")


@given(factor=st.floats(0.1, 100), seed=st.integers(0, 10_000))
def test_a_layer_normalized_rnn_is_invariant_to_weight_scaling(factor, seed):
    """LN paper, section 3.1; up to ε."""
    torch.manual_seed(seed)
    layer = NORMALIZED["rnn"](2, 5, lambda features: LN(features, epsilon=1e-14), STEPS).double()
    x = sequence(seed=seed)
    before = layer(x)
    with torch.no_grad():
        layer.weight_input.mul_(factor)
        layer.weight_hidden.mul_(factor)
    torch.testing.assert_close(layer(x), before, rtol=1e-6, atol=1e-6)
