"""Weight normalization inside recurrent layers: that of torch, at every time step."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError, SpecError
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.messages import EvaluationDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.norms.analytic.layer import NormalizationFromWeights
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.data.reviews import make_reviews, write_lines
from tests.models.recurrent.layers import INPUTS, NORMALIZED_LAYERS, STEPS, UNITS, make_normalized

GATES = {"rnn": [0], "lstm": [2, 1, 3, 0]}
"""Torch's order of the gates (i, f, g, o) by positions in that of this project (o, f, i, g)."""


def reordered(value, cell):
    """A tensor of all gates in the order of torch."""
    return torch.cat([value.detach().chunk(len(GATES[cell]))[position] for position in GATES[cell]])


def without_epsilon(layer):
    for norm in layer.modules():
        if isinstance(norm, NormalizationFromWeights):
            norm.formula_variant = replace(norm.formula_variant, epsilon=0.0)
    return layer


def torch_lstm(layer):
    """Torch's LSTM with weight normalization of both products, and the parameters of `layer`; all biases in one."""
    lstm = nn.LSTM(INPUTS, UNITS, batch_first=True, dtype=torch.float64)
    norms = {"weight_ih_l0": layer.norm_input.of_step[0], "weight_hh_l0": layer.norm_hidden.of_step[0]}
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(reordered(layer.weight_input, "lstm"))
        lstm.weight_hh_l0.copy_(reordered(layer.weight_hidden, "lstm"))
        lstm.bias_ih_l0.copy_(reordered(layer.bias + sum(norm.bias for norm in norms.values()), "lstm"))
        lstm.bias_hh_l0.zero_()
    lstm.bias_hh_l0.requires_grad_(requires_grad=False)
    for name, norm in norms.items():
        norm.bias.requires_grad_(requires_grad=False)
        weight_norm(lstm, name)
        with torch.no_grad():
            lstm.parametrizations[name].original0.copy_(reordered(norm.weight, "lstm")[:, None])
    return lstm


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_an_lstm_trains_as_that_of_torch_step_by_step(optimizer):
    layer = without_epsilon(make_normalized("lstm", "wn"))
    other = torch_lstm(layer)
    updates = [optimizer(module.parameters(), lr=0.05) for module in (layer, other)]
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        x = torch.randn(5, STEPS, INPUTS, generator=generator, dtype=torch.float64)
        target = torch.randn(5, STEPS, UNITS, generator=generator, dtype=torch.float64)
        outputs = layer(x), other(x)[0]
        torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-10, atol=1e-10)
        for output, update in zip(outputs, updates, strict=True):
            update.zero_grad()
            (output - target).square().mean().backward()
            update.step()


def test_an_rnn_divides_by_the_norm_of_both_weights_of_a_unit():
    layer = without_epsilon(make_normalized("rnn", "wn"))
    norm = layer.norm.of_step[0]
    input_weight, hidden_weight, gain, bias = (
        value.detach().numpy() for value in (layer.weight_input, layer.weight_hidden, norm.weight, norm.bias)
    )
    length = np.sqrt((input_weight**2).sum(1) + (hidden_weight**2).sum(1))
    x = np.random.default_rng(0).normal(size=(4, STEPS, INPUTS))
    hidden = np.zeros((4, UNITS))
    with torch.no_grad():
        outputs = layer(torch.from_numpy(x)).numpy()
    for step in range(STEPS):
        hidden = np.tanh((x[:, step] @ input_weight.T + hidden @ hidden_weight.T) / length * gain + bias)
        np.testing.assert_allclose(outputs[:, step], hidden, rtol=1e-10)


def test_a_gru_divides_each_product_by_the_norm_of_its_weights():
    layer = without_epsilon(make_normalized("gru", "wn"))
    twice = 2 * UNITS
    products = {
        "norm_hidden": layer.weight_hidden[:twice],
        "norm_input": layer.weight_input[:twice],
        "norm_candidate": layer.weight_input[twice:],
        "norm_recalled": layer.weight_hidden[twice:],
    }
    for name, weight in products.items():
        for norm in getattr(layer, name).of_step:
            mean, variance = norm.input_moments_from_weights()
            assert not mean.any()
            torch.testing.assert_close(variance.flatten(), weight.square().sum(1), rtol=1e-12, atol=0)


@pytest.mark.parametrize("cell", NORMALIZED_LAYERS)
def test_no_output_depends_on_the_mini_batch_and_copies_have_weights_of_their_own(cell):
    layer = make_normalized(cell, "wn")
    x = torch.randn(6, STEPS, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    outputs = layer.train()(x)
    torch.testing.assert_close(layer.eval()(x[:1]), outputs[:1])
    duplicate = copy.deepcopy(layer)
    with torch.no_grad():
        duplicate.weight_hidden.mul_(3)
        duplicate.weight_input.mul_(3)
    torch.testing.assert_close(duplicate(x), outputs, rtol=1e-6, atol=1e-6)  # re-scaling changes nothing
    torch.testing.assert_close(layer(x), outputs)


@pytest.mark.parametrize(
    ("cell", "method", "part"),
    [
        ("lstm", "ap2", "ap2 cannot be propagated through a recurrent layer"),
        ("gru", "normprop", "normprop cannot be propagated through a recurrent layer"),
        ("cell_output", "wn", "output of an LSTM cell has no weights"),
    ],
)
def test_other_layers_from_weights_are_refused(cell, method, part):
    with pytest.raises(ModelError, match=part):
        make_normalized(cell, method)


OTHER_CELLS = [cell for cell in NORMALIZED_LAYERS if cell != "rnn"]
STUDY = """
name: words
data: {name: imdb, validation: 10}
model: {name: CELL, widths: [3], embedding: 3, dense: 4, normalize: NORMALIZE}
arms: [{method: wn}]
training: {epochs: 1, batch_size: 10}
seeds: [0]
"""


@pytest.mark.filterwarnings("ignore:ill-conditioned")  # h₀ = 0 has no deviation over a mini-batch
@pytest.mark.parametrize("cell", ["rnn", *(pytest.param(cell, marks=pytest.mark.slow) for cell in OTHER_CELLS)])
def test_a_study_evaluates_nine_configurations(cell, tmp_path):
    write_lines(tmp_path / "imdb", make_reviews(per_class=10))
    (trial,) = list_planned_trial_specs(parse_study(STUDY.replace("CELL", cell).replace("NORMALIZE", "cells")))
    environment = ExecutionEnvironment(tmp_path, tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    (evaluations,) = (message.evaluations for message in sent if isinstance(message, EvaluationDone))
    losses = {str(row.key.configuration): row.loss for row in evaluations if row.key.split is Split.VALIDATION}
    assert list(losses) == ["AA--", "AT--", "AF--", "TA--", "TT--", "TF--", "FA--", "FT--", "FF--"]
    assert all(loss is not None for loss in losses.values())


@pytest.mark.parametrize("normalize", ["layers", "cell_output", "cells_and_layers"])
def test_layers_without_weights_in_front_are_refused_before_training(normalize):
    with pytest.raises(SpecError, match=r"arms\.0\.method: wn .*model\.normalize to cells"):
        parse_study(STUDY.replace("CELL", "lstm").replace("NORMALIZE", normalize))
