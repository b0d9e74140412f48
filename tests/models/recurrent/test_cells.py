"""Normalized recurrent cells compute their equations, in training and at inference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.method import Method
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import LN
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from tests.models.recurrent import oracle
from tests.models.recurrent.layers import (
    NORMALIZED_LAYERS,
    PLAIN_LAYERS,
    SIZE,
    STEPS,
    UNITS,
    draw_sequences,
    make_identity,
    make_normalized,
    make_plain,
    step_norms,
    weights_of,
)
from tests.norms.oracle import Formula, population
from tests.support.tiers import latin, thinned

CELLS = sorted(PLAIN_LAYERS)
VARIANTS = [(method, semantics) for method in ("ln", "bn", "bln") for semantics in ("paper", "reference")]
GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def formulas(layer, method, semantics):
    """Return the formula of each norm of a layer, with its γ and β."""
    by_name = {}
    for name, norms in step_norms(layer).items():
        gamma, beta = (value.detach().numpy() for value in (norms.of_step[0].weight, norms.of_step[0].bias))
        by_name[name] = Formula(method, semantics, len(gamma), SIZE, gamma, beta)
    return by_name


def assert_equal(outputs, expected, tolerance=1e-10):
    np.testing.assert_allclose(outputs.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cell", CELLS)
def test_a_plain_layer_computes_its_equations(cell):
    layer, x = make_plain(cell), draw_sequences()
    assert_equal(layer(x), oracle.CELLS[cell](weights_of(layer), x.numpy()), 1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_with_identity_norms_a_layer_equals_the_plain_layer(cell):
    torch.manual_seed(0)
    layer = NORMALIZED_LAYERS[cell](2, UNITS, make_identity, STEPS).double()
    x = draw_sequences()
    reference = PLAIN_LAYERS[cell](2, UNITS, bias=layer.bias is not None).double()
    reference.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x), reference(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("method", "semantics"), VARIANTS)
@pytest.mark.parametrize("cell", CELLS)
def test_training_uses_mini_batch_statistics_of_each_step(cell, method, semantics):
    layer, x = make_normalized(cell, method, semantics).train(), draw_sequences()
    norms = formulas(layer, method, semantics)
    expected = oracle.CELLS[cell](weights_of(layer), x.numpy(), lambda name, step, values: norms[name](values))
    assert_equal(layer(x), expected)


@pytest.mark.parametrize(("method", "semantics"), thinned(VARIANTS, 3))
@pytest.mark.parametrize("cell", CELLS)
def test_inference_uses_population_values_of_each_step(cell, method, semantics):
    """Under every configuration. The oracle computes population values from the training inputs of each norm."""
    layer = make_normalized(cell, method, semantics).eval()
    norms, weights, run_cell = formulas(layer, method, semantics), weights_of(layer), oracle.CELLS[cell]
    training = [draw_sequences(seed=seed) for seed in (1, 2, 3)]
    norm_inputs: dict = {}

    def record_inputs(name, step, values):
        norm_inputs.setdefault((name, step), []).append(values)
        return norms[name](values)

    for x in training:
        run_cell(weights, x.numpy(), record_inputs)
    population_values = {key: population(norms[key[0]], inputs) for key, inputs in norm_inputs.items()}
    layers = get_norms_by_name(layer)
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(layer, training)}
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    x = draw_sequences(seed=4)
    for configuration in all_configurations(Method(method)):
        for norm in layers.values():
            norm.configure(configuration, populations[norm][PopulationEstimate.FROZEN])
        expected = run_cell(
            weights,
            x.numpy(),
            lambda name, step, rows, code=str(configuration): norms[name](rows, code, population_values[name, step]),
        )
        assert_equal(layer(x), expected)


@pytest.mark.parametrize(("method", "cell"), thinned(latin(["none", "ln", "bn", "bln"], CELLS), 2))
def test_gradients_equal_finite_differences(cell, method):
    layer = make_plain(cell) if method == "none" else make_normalized(cell, method)
    x = draw_sequences(n=3).requires_grad_()
    assert torch.autograd.gradcheck(lambda *_: layer(x), (x, *layer.parameters()), atol=1e-5, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("gain", [None, 0.1])
@pytest.mark.parametrize("cell", CELLS)
def test_gains_start_at_the_given_value_and_biases_at_zero(cell, gain):
    options = {} if gain is None else {"gain": gain}
    layer = NORMALIZED_LAYERS[cell](2, UNITS, LN, STEPS, **options)
    norms = step_norms(layer)
    assert len(norms) == {"rnn": 1, "lstm": 3, "gru": 4}[cell]
    for norm in norms.values():
        assert len(norm.of_step) == STEPS
        assert norm.of_step[0].weight.unique().tolist() == pytest.approx([gain or 1.0])
        assert norm.of_step[0].bias.abs().max() == 0


@pytest.mark.parametrize("cell", CELLS)
def test_the_initial_values_of_the_supplement_are_those_of_the_swapped_parameters(cell):
    """LN paper: Eq. 15 has gains α and biases β; "α of zeros, β of ones" are its additive and multiplicative ones.

    Read by the names of Eq. 15, gains of zero and biases of one, the states do not depend on the inputs.
    """
    layer, x, other_x = make_normalized(cell, "ln"), draw_sequences(), draw_sequences(seed=9)
    assert not torch.allclose(layer(x), layer(other_x))
    with torch.no_grad():
        for norms in step_norms(layer).values():
            norms.of_step[0].weight.fill_(0.0)
            norms.of_step[0].bias.fill_(1.0)
    assert torch.equal(layer(x), layer(other_x))
    layer(x).square().sum().backward()
    assert not layer.weight_input.grad.any()
    assert not layer.weight_hidden.grad.any()


@pytest.mark.parametrize("cell", CELLS)
def test_initial_weights_are_those_of_the_plain_layer(cell):
    """The same seed gives the same initial weights; only an LSTM has a bias in addition to those of its norms."""
    plain, normalized = PLAIN_LAYERS[cell](2, UNITS), NORMALIZED_LAYERS[cell](2, UNITS, LN, STEPS)
    for layer in (plain, normalized):
        layer.initialize_weights_and_bias(torch.Generator().manual_seed(7))
    assert torch.equal(plain.weight_input, normalized.weight_input)
    assert torch.equal(plain.weight_hidden, normalized.weight_hidden)
    assert plain.weight_hidden.shape == (GATES[cell] * UNITS, UNITS)
    assert (normalized.bias is None) == (cell != "lstm")


@pytest.mark.parametrize("cell", CELLS)
def test_shorter_sequences_give_the_first_states(cell):
    layer, x = make_normalized(cell, "ln"), draw_sequences()
    torch.testing.assert_close(layer(x[:, : STEPS - 1]), layer(x)[:, : STEPS - 1])


@pytest.mark.parametrize(("method", "semantics"), thinned(VARIANTS, 3))
def test_a_norm_of_the_cell_output_computes_its_equations(method, semantics):
    """LN paper, Eq. 29-31: c_t alone is normalized."""
    layer, x = make_normalized("cell_output", method, semantics).train(), draw_sequences()
    assert list(step_norms(layer)) == ["norm_cell"]
    formula = formulas(layer, method, semantics)["norm_cell"]
    expected = oracle.lstm(
        weights_of(layer), x.numpy(), lambda name, step, values: formula(values) if name == "norm_cell" else values
    )
    assert_equal(layer(x), expected)
    x.requires_grad_()
    assert torch.autograd.gradcheck(lambda *_: layer(x), (x, *layer.parameters()), atol=1e-5, rtol=1e-4, fast_mode=True)


def test_without_normalization_a_norm_of_the_cell_output_is_the_plain_layer():
    plain, layer, x = make_plain("lstm"), make_normalized("cell_output", "none"), draw_sequences()
    layer.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(layer(x), plain(x), rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 10_000), cell=st.sampled_from(CELLS))
def test_layer_normalized_cells_treat_examples_independently(seed, cell):
    layer = make_normalized(cell, "ln")
    x, other_x = draw_sequences(seed=seed), draw_sequences(seed=seed + 1)
    mixed = torch.cat([x[:1], other_x[1:]])
    torch.testing.assert_close(layer(mixed)[:1], layer(x)[:1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer(x[:1]), layer(x)[:1], rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 10_000), cell=st.sampled_from(CELLS))
def test_batch_normalized_cells_depend_on_the_batch_unless_tt(seed, cell):
    layer = make_normalized(cell, "bn").eval()
    layers = get_norms_by_name(layer)
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(layer, [draw_sequences(seed=seed + 2)])}
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    x, other_x = draw_sequences(seed=seed), draw_sequences(seed=seed + 1)
    mixed = torch.cat([x[:1], other_x[1:]])
    for code in ("FF--", "TT--"):
        for norm in layers.values():
            norm.configure(InferenceConfiguration(code), populations[norm][PopulationEstimate.FROZEN])
        difference = (layer(mixed)[:1] - layer(x)[:1]).abs().max()
        assert (difference < 1e-12) == (code == "TT--")


@given(factor=st.floats(0.1, 100), seed=st.integers(0, 10_000))
def test_a_layer_normalized_rnn_is_invariant_to_weight_scaling(factor, seed):
    """LN paper, section 3.1; exact up to ε."""
    torch.manual_seed(seed)
    layer = NORMALIZED_LAYERS["rnn"](2, 5, lambda features: LN(features, epsilon=1e-14), STEPS).double()
    x = draw_sequences(seed=seed)
    outputs = layer(x)
    with torch.no_grad():
        layer.weight_input.mul_(factor)
        layer.weight_hidden.mul_(factor)
    torch.testing.assert_close(layer(x), outputs, rtol=1e-6, atol=1e-6)
