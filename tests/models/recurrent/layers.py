"""Recurrent layers under test, in double precision with drawn weights, and the weights for the oracle."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from bln_search.models.recurrent import GRU, LSTM, RNN, NormalizedGRU, NormalizedLSTM, NormalizedRNN, StepNorms
from bln_search.norms import make_norm

PLAIN = {"rnn": RNN, "lstm": LSTM, "gru": GRU}
NORMALIZED = {"rnn": NormalizedRNN, "lstm": NormalizedLSTM, "gru": NormalizedGRU}
INPUTS, UNITS, STEPS, SIZE = 2, 3, 3, 4


def plain(cell, *, inputs=INPUTS, units=UNITS, **options):
    torch.manual_seed(1)
    return drawn(PLAIN[cell](inputs, units, **options))


def normalized(cell, method="bln", semantics="paper", *, steps=STEPS, size=SIZE, **options):
    torch.manual_seed(1)
    norm = partial(make_norm, method, semantics=semantics, batch_size=size)
    return drawn(NORMALIZED[cell](INPUTS, UNITS, norm, steps, **options))


def drawn(layer):
    """The layer in double precision; no γ or β of a norm and no bias is what it starts at."""
    layer.double()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if not name.startswith("weight_"):
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
    return layer


def weights_of(layer):
    """As NumPy arrays; a bias of zeros where there is none."""
    found = {name: getattr(layer, name).detach().numpy() for name in ("weight_input", "weight_hidden")}
    bias = torch.zeros(len(layer.weight_input)) if layer.bias is None else layer.bias
    return {**found, "bias": bias.detach().double().numpy()}


def step_norms(layer):
    """The norms of a normalized layer by name."""
    return {name: module for name, module in layer.named_children() if isinstance(module, StepNorms)}


def sequence(n=SIZE, steps=STEPS, inputs=INPUTS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, steps, inputs, generator=generator, dtype=torch.float64)


def identity(_features):
    return nn.Identity()
