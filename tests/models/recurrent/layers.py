"""Recurrent layers in double precision with random weights, and their weights for the oracle."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from bln_search.models.recurrent import (
    GRU,
    LSTM,
    RNN,
    CellOutputNormalizedLSTM,
    NormalizedGRU,
    NormalizedLSTM,
    NormalizedRNN,
    TimeStepNorms,
)
from bln_search.norms import make_norm

PLAIN_LAYERS = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
NORMALIZED_LAYERS = {"rnn": NormalizedRNN, "lstm": NormalizedLSTM, "gru": NormalizedGRU}
NORMALIZED_CELLS = {**NORMALIZED_LAYERS, "cell_output": CellOutputNormalizedLSTM}
INPUTS, UNITS, STEPS, SIZE = 2, 3, 3, 4


def make_plain(cell, *, inputs=INPUTS, units=UNITS, **options):
    torch.manual_seed(1)
    return randomize(PLAIN_LAYERS[cell](inputs, units, **options))


def make_normalized(cell, method="bln", semantics="paper", *, steps=STEPS, size=SIZE, **options):
    torch.manual_seed(1)
    norm = partial(make_norm, method, semantics=semantics, batch_size=size)
    return randomize(NORMALIZED_CELLS[cell](INPUTS, UNITS, norm, steps, **options))


def randomize(layer):
    """Convert a layer to double precision and randomize its biases and the γ and β of its norms."""
    layer.double()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if not name.startswith("weight_"):
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return layer


def weights_of(layer):
    """Return the weights as NumPy arrays, with a bias of zeros where there is none."""
    weights = {name: getattr(layer, name).detach().numpy() for name in ("weight_input", "weight_hidden")}
    bias = torch.zeros(len(layer.weight_input)) if layer.bias is None else layer.bias
    return {**weights, "bias": bias.detach().double().numpy()}


def step_norms(layer):
    """Return the norms of a normalized layer by name."""
    return {name: module for name, module in layer.named_children() if isinstance(module, TimeStepNorms)}


def draw_sequences(n=SIZE, steps=STEPS, inputs=INPUTS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, steps, inputs, generator=generator, dtype=torch.float64)


def make_identity(_features):
    return nn.Identity()
