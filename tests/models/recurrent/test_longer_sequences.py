"""Sequences with more time steps than those for which the norms inside recurrent layers were built."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from bln_search import convert, evaluate_configurations, fine_tune
from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate, Split
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.core.undefined_reasons import sequence_exceeds_time_steps_reason
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.models import build_model
from bln_search.models.recurrent import TimeStepNorms
from bln_search.norms import make_norm
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from tests.models.recurrent import oracle
from tests.models.recurrent.layers import NORMALIZED_LAYERS, STEPS, draw_sequences, make_normalized, weights_of
from tests.models.recurrent.test_cells import assert_equal, formulas
from tests.norms.oracle import population
from tests.support.tiers import latin

CELLS = sorted(NORMALIZED_LAYERS)
LONGER = STEPS + 2
SIZE = 4


def build(method, steps=STEPS, **options):
    options = {"widths": (5,), "dense": 4, "normalize": "cells", "dropout": 0, "recurrent_dropout": 0, **options}
    return build_model("lstm", (steps, 2), 3, partial(make_norm, method, batch_size=SIZE), seed=0, options=options)


def loss_of(row):
    """Return the validation loss of a row of a table."""
    return row.row.metrics[Split.VALIDATION].loss.mean


def batches_of(steps, seed, n=20):
    targets = torch.arange(n) % 3
    return list(iter_mini_batches_with_fillers(draw_sequences(n, steps, 2, seed).float(), targets, SIZE))


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize(("cell", "method"), latin(["cell_output", *CELLS], ["ln", "none"]))
def test_without_statistics_of_a_step_a_sequence_may_have_any_length(cell, method, mode):
    """The states are those of a layer that was built for the whole sequence and has the same weights, γ and β."""
    layer, longer = make_normalized(cell, method), make_normalized(cell, method, steps=LONGER)
    parameters = dict(layer.named_parameters())
    for name, parameter in longer.named_parameters():
        parameter.data.copy_(parameters[name].data)
    x = draw_sequences(steps=LONGER)
    assert torch.equal(layer.train(mode)(x), longer.train(mode)(x))


@pytest.mark.parametrize("cell", CELLS)
def test_layer_normalization_computes_its_equations_at_later_steps(cell):
    layer, x = make_normalized(cell, "ln").eval(), draw_sequences(steps=LONGER)
    norms = formulas(layer, "ln", "paper")
    assert_equal(
        layer(x), oracle.CELLS[cell](weights_of(layer), x.numpy(), lambda name, step, values: norms[name](values))
    )


@pytest.mark.parametrize("method", ["bn", "bln", "mbn", "brn"])
@pytest.mark.parametrize("mode", [True, False])
def test_statistics_of_a_step_are_required_unless_the_last_one_may_replace_them(method, mode):
    layer = make_normalized("gru", method).train(mode)
    with pytest.raises(ModelError, match=f"{method} has statistics for the 3 time steps .* the sequence has 5"):
        layer(draw_sequences(steps=LONGER))
    permitted = make_normalized("gru", method, longer_sequences="last_time_step").train(mode)
    assert permitted(draw_sequences(steps=LONGER)).isfinite().all()


@pytest.mark.parametrize(("cell", "method"), latin(CELLS, ["bn", "ln", "bln"]))
def test_later_steps_take_the_population_of_the_last_one(cell, method):
    """Under every configuration, against the NumPy loop."""
    layer = make_normalized(cell, method, longer_sequences="last_time_step").eval()
    norms, weights, run_cell = formulas(layer, method, "paper"), weights_of(layer), oracle.CELLS[cell]
    training = [draw_sequences(seed=seed) for seed in (1, 2)]
    norm_inputs: dict = {}

    def record_inputs(name, step, values):
        norm_inputs.setdefault((name, step), []).append(values)
        return norms[name](values)

    for x in training:
        run_cell(weights, x.numpy(), record_inputs)
    values_of = {key: population(norms[key[0]], inputs) for key, inputs in norm_inputs.items()}
    layers = get_norms_by_name(layer)
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(layer, training)}
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    x = draw_sequences(steps=LONGER, seed=4)
    for configuration in all_configurations(Method(method)):
        for norm in layers.values():
            norm.configure(configuration, populations[norm][PopulationEstimate.FROZEN])
        expected = run_cell(
            weights,
            x.numpy(),
            lambda name, step, rows, code=str(configuration): norms[name](
                rows, code, values_of[name, min(step, STEPS - 1)]
            ),
        )
        assert_equal(layer(x), expected)


def test_later_steps_do_not_change_the_population_of_the_last_one():
    layer = make_normalized("rnn", "bn", longer_sequences="last_time_step").eval()
    longer = [draw_sequences(steps=LONGER, seed=seed) for seed in range(3)]
    of_longer = collect_moments_with_frozen_weights(layer, longer)
    of_built = collect_moments_with_frozen_weights(layer, [x[:, :STEPS] for x in longer])
    for name, moments in of_built.items():
        assert torch.equal(of_longer[name].batch.mean, moments.batch.mean)
        assert torch.equal(of_longer[name].batch.variance, moments.batch.variance)
    memorized = make_normalized("rnn", "mbn", longer_sequences="last_time_step").train()
    for x in longer:
        memorized(x)
    assert len(memorized.norm.of_step[-1].memory) == len(longer)


@pytest.mark.parametrize(("method", "one_pass"), latin(["bn", "bln", "mbn"], [True, False]))
def test_a_table_of_longer_sequences_has_all_rows(method, one_pass):
    network = build(method, longer_sequences="last_time_step")
    network.train()
    for inputs, _ in batches_of(STEPS, 0):
        network(inputs)
    table = evaluate_configurations(network, batches_of(STEPS, 0), batches_of(LONGER, 1), one_pass=one_pass)
    losses = {str(row.configuration): loss_of(row) for row in table}
    assert len(losses) == {"bn": 4, "bln": 16, "mbn": 9}[method]
    assert np.isfinite(list(losses.values())).all()


def test_the_one_pass_equals_plain_passes_over_longer_sequences():
    network = build("bln", longer_sequences="last_time_step").double()
    batches = [[(x.double(), y) for x, y in batches_of(steps, steps)] for steps in (STEPS, LONGER)]
    fused, plain = (evaluate_configurations(network, *batches, one_pass=one_pass) for one_pass in (True, False))
    for row in fused:
        assert loss_of(row) == pytest.approx(loss_of(plain[str(row.configuration)]), rel=1e-6)


def test_a_table_refuses_longer_sequences_before_a_pass():
    network = build("bn")
    with pytest.raises(ModelError, match=r"bn has statistics for the 3 time steps .* the sequence has 5"):
        evaluate_configurations(network, batches_of(STEPS, 0), batches_of(LONGER, 1))


@pytest.mark.parametrize("one_pass", [True, False])
def test_layer_normalization_has_a_value_where_nothing_is_stored(one_pass):
    table = evaluate_configurations(build("ln"), batches_of(STEPS, 0), batches_of(LONGER, 1), one_pass=one_pass)
    assert [str(row.configuration) for row in table if row.row.reason is None] == ["--FF"]
    reasons = {str(row.configuration): row.row.reason for row in table if row.row.reason is not None}
    assert reasons == dict.fromkeys(["--TF", "--FT", "--TT"], sequence_exceeds_time_steps_reason(STEPS, LONGER))


@pytest.mark.parametrize(("method", "code"), [("ln", "--FF"), ("bn", "TT--"), ("none", "----")])
def test_a_network_is_fine_tuned_on_longer_sequences(method, code):
    network = build(method, longer_sequences="last_time_step")
    tuned, result = fine_tune(network, code, batches_of(LONGER, 0), batches_of(LONGER, 1), epochs=1, learning_rate=1e-2)
    assert result.diverged is None
    assert not torch.equal(tuned.layers[0].weight_hidden, network.layers[0].weight_hidden)
    assert np.isfinite(loss_of(result.after[code]))


@pytest.mark.parametrize("method", ["bn", "ln", "bln"])
def test_norms_after_the_layers_have_no_statistics_of_steps(method):
    """They pool over time steps, so one pass, plain passes and per-layer configurations take any length."""
    network = build(method, normalize="layers")
    tables = [
        evaluate_configurations(network, batches_of(STEPS, 0), batches_of(LONGER, 1), one_pass=one_pass)
        for one_pass in (True, False)
    ]
    for row in tables[0]:
        assert loss_of(row) == pytest.approx(loss_of(tables[1][str(row.configuration)]), rel=1e-5)


class OwnNetwork(nn.Module):
    """A recurrent network of a user with torch's layers at every step."""

    def __init__(self, norm, **options):
        super().__init__()
        torch.manual_seed(0)
        self.weights = nn.Linear(2, 5, bias=False)
        self.recurrent = nn.Linear(5, 5, bias=False)
        self.norms = TimeStepNorms(norm, 5, STEPS, **options)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        hidden = x.new_zeros(len(x), 5)
        for step, values in enumerate(x.unbind(1)):
            hidden = torch.tanh(self.norms(self.weights(values) + self.recurrent(hidden), step))
        return self.head(hidden)


@pytest.mark.parametrize(("norm", "is_refused"), [(nn.LayerNorm, False), (nn.BatchNorm1d, True)])
def test_layers_of_torch_follow_the_same_rule_before_and_after_conversion(norm, is_refused):
    x = batches_of(LONGER, 0)[0][0]
    for network in (OwnNetwork(norm).eval(), convert(OwnNetwork(norm), method="same").eval()):
        if is_refused:
            with pytest.raises(ModelError, match=r"the 3 time steps .* the sequence has"):
                network(x)
        else:
            assert network(x).isfinite().all()
    network = OwnNetwork(norm, longer_sequences="last_time_step").eval()
    converted = convert(deepcopy(network), method="same").eval()
    torch.testing.assert_close(converted(x), network(x), rtol=1e-4, atol=1e-5)
    assert len(list(evaluate_configurations(converted, batches_of(STEPS, 1), batches_of(LONGER, 2)))) >= 4


def test_an_exported_program_has_the_later_steps():
    layer = make_normalized("lstm", "bn", longer_sequences="last_time_step").eval()
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(layer, [draw_sequences(seed=1)])}
    layers = get_norms_by_name(layer)
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    for norm in layers.values():
        norm.configure(InferenceConfiguration("TT--"), populations[norm][PopulationEstimate.FROZEN])
    x = draw_sequences(steps=LONGER)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: batch},), strict=False)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x[:3]), layer(x[:3]), rtol=1e-10, atol=1e-10)
