"""Common properties of recurrent layers: dropout masks over time, initial weights, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.errors import ModelError
from bln_search.models.recurrent import LSTM, RNN
from tests.models.recurrent import oracle
from tests.models.recurrent.layers import (
    NORMALIZED_LAYERS,
    PLAIN_LAYERS,
    draw_sequences,
    make_identity,
    make_plain,
    weights_of,
)

DROPOUT = 0.4


def make_layer(cell, kind, **options):
    if kind == "plain":
        return make_plain(cell, inputs=5, units=6, **options)
    torch.manual_seed(1)
    return NORMALIZED_LAYERS[cell](5, 6, make_identity, 7, **options).double()


@pytest.mark.parametrize("kind", ["plain", "normalized"])
@pytest.mark.parametrize("cell", PLAIN_LAYERS)
def test_each_sequence_has_one_mask_for_all_of_its_steps(cell, kind, monkeypatch):
    layer = make_layer(cell, kind, dropout=DROPOUT, recurrent_dropout=DROPOUT)
    results = {}

    def record_once(name):
        method = getattr(layer, name)

        def record_input(x):
            assert name not in results, "a mask is drawn once for a sequence"
            results[name] = method(x)
            return results[name]

        return record_input

    for name in ("apply_input_dropout", "draw_recurrent_dropout_mask"):
        monkeypatch.setattr(layer, name, record_once(name))
    x = draw_sequences(4, 7, 5)
    outputs = layer(x)
    ratio = results["apply_input_dropout"] / x
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))
    expected = oracle.CELLS[cell](
        weights_of(layer),
        results["apply_input_dropout"].numpy(),
        mask=results["draw_recurrent_dropout_mask"].detach().numpy(),
    )
    np.testing.assert_allclose(outputs.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_dropout_masks_drop_the_given_fraction_and_rescale():
    torch.manual_seed(0)
    layer = LSTM(50, 50, dropout=DROPOUT, recurrent_dropout=0.1)
    dropped = layer.apply_input_dropout(torch.ones(200, 2, 50))
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / (1 - DROPOUT)])
    assert (dropped == 0).float().mean().item() == pytest.approx(DROPOUT, abs=0.02)
    mask = layer.draw_recurrent_dropout_mask(torch.ones(200, 2, 50))
    assert mask.shape == (200, 50)
    assert (mask == 0).float().mean().item() == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("kind", ["plain", "normalized"])
@pytest.mark.parametrize("cell", PLAIN_LAYERS)
def test_nothing_is_dropped_in_evaluation(cell, kind):
    layer = make_layer(cell, kind, dropout=DROPOUT, recurrent_dropout=DROPOUT).eval()
    x = draw_sequences(4, 7, 5)
    outputs = layer(x)
    assert torch.equal(outputs, layer(x))
    expected = oracle.CELLS[cell](weights_of(layer), x.numpy())
    np.testing.assert_allclose(outputs.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell", PLAIN_LAYERS)
def test_initial_weights_are_glorot_orthogonal_and_reproducible(cell):
    layer = PLAIN_LAYERS[cell](30, 20)
    layer.initialize_weights_and_bias(torch.Generator().manual_seed(5))
    num_gates = len(layer.weight_input) // 20
    bound = (6 / (30 + 20 * num_gates)) ** 0.5
    assert 0.95 * bound < layer.weight_input.abs().max() <= bound
    torch.testing.assert_close(layer.weight_hidden.T @ layer.weight_hidden, torch.eye(20), atol=1e-5, rtol=0)
    repeated = PLAIN_LAYERS[cell](30, 20)
    repeated.initialize_weights_and_bias(torch.Generator().manual_seed(5))
    assert torch.equal(repeated.weight_hidden, layer.weight_hidden)
    assert torch.equal(repeated.weight_input, layer.weight_input)


@pytest.mark.parametrize(
    "make_lstm", [LSTM, lambda inputs, units: NORMALIZED_LAYERS["lstm"](inputs, units, make_identity, 2)]
)
def test_the_forget_gate_of_an_lstm_starts_open(make_lstm):
    bias = make_lstm(2, 3).bias
    assert bias.tolist() == [0.0] * 3 + [1.0] * 3 + [0.0] * 6


@pytest.mark.parametrize("cell", ["rnn", "gru"])
def test_other_biases_start_at_zero(cell):
    assert PLAIN_LAYERS[cell](2, 3).bias.abs().max() == 0


@pytest.mark.parametrize("cell", PLAIN_LAYERS)
def test_a_layer_without_bias_computes_its_equations(cell):
    layer = PLAIN_LAYERS[cell](2, 3, bias=False).double()
    x = draw_sequences()
    outputs = layer(x).detach().numpy()
    np.testing.assert_allclose(outputs, oracle.CELLS[cell](weights_of(layer), x.numpy()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout": 1.0}, r"^dropout .* not 1\.0"),
        ({"recurrent_dropout": -0.1}, r"^recurrent_dropout .* not -0\.1"),
        ({"units": 0}, "not 2 and 0"),
    ],
)
def test_impossible_layer_options_are_an_error(options, message):
    with pytest.raises(ModelError, match=message):
        RNN(**{"inputs": 2, "units": 3, **options})


@pytest.mark.parametrize("shape", [(4, 2), (4, 3, 5), (4, 0, 2)])
@pytest.mark.parametrize("cell", PLAIN_LAYERS)
def test_an_input_other_than_a_sequence_is_an_error(cell, shape):
    with pytest.raises(ModelError, match=r"\(N, T, 2\), not"):
        PLAIN_LAYERS[cell](2, 3)(torch.zeros(shape))
