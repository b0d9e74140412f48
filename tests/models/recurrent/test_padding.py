"""Padding is skipped: the state stays as it is, and statistics are of the examples with a value at that step."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.core.method import Method
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.models import build_model
from bln_search.models.recurrent import TimeStepNorms
from bln_search.norms import BN, LN, make_norm
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from tests.models.recurrent import oracle
from tests.models.recurrent.layers import SIZE, STEPS, draw_sequences, make_normalized, step_norms, weights_of
from tests.norms.oracle import Formula
from tests.support.tiers import latin, thinned

CELLS = ["cell_output", "gru", "lstm", "rnn"]
PRESENT = torch.tensor([[True, True, True], [False, True, True], [False, False, True], [False, True, True]])
"""Steps with one, three and four of four examples."""
OPTIONS = {"widths": (5, 4), "embedding": 3, "dense": 4, "normalize": "cells", "mask_padding": True}


def run_oracle(cell, layer, x, present, method, code="FFFF"):
    """Return the states of the NumPy loop under statistics of the mini-batch."""
    formulas = {}
    for name, norms in step_norms(layer).items():
        gamma, beta = (value.detach().numpy() for value in (norms.of_step[0].weight, norms.of_step[0].bias))
        formulas[name] = Formula(method, "paper", len(gamma), SIZE, gamma, beta)

    def norm(name, time_step, values):
        return formulas[name](values, code) if name in formulas else values

    run_cell = oracle.CELLS["lstm" if cell == "cell_output" else cell]
    return run_cell(weights_of(layer), x.numpy(), norm, present=None if present is None else present.tolist())


@pytest.mark.parametrize(("cell", "method"), latin(CELLS, ["bn", "ln", "bln"]))
def test_states_and_statistics_equal_the_loop_over_present_examples(cell, method):
    layer, x = make_normalized(cell, method).train(), draw_sequences()
    expected = run_oracle(cell, layer, x, PRESENT, method)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(layer(x, PRESENT).detach().numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_the_state_is_carried_over_padding_at_any_place(cell):
    layer, x = make_normalized(cell, "ln"), draw_sequences()
    present = torch.tensor([[True, False, True]]).expand(SIZE, 3)
    states = layer(x, present)
    assert torch.equal(states[:, 0], states[:, 1])
    torch.testing.assert_close(states[:, 2], layer(x[:, [0, 2]])[:, 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("method", "cell"), latin(["bn", "ln", "bln", "mbn", "brn", "none"], CELLS))
def test_without_padding_nothing_changes(cell, method):
    first, second = make_normalized(cell, method).train(), make_normalized(cell, method).train()
    for seed in range(2):
        x = draw_sequences(seed=seed)
        torch.testing.assert_close(first(x), second(x, torch.ones(SIZE, STEPS, dtype=torch.bool)), rtol=0, atol=1e-15)


@pytest.mark.parametrize("method", ["bn", "bln", "mbn"])
def test_a_step_with_one_or_no_example_is_defined(method):
    """One example less its own mean is zero, so the norm of the mini-batch gives β; without an example states stay."""
    layer, x = make_normalized("rnn", method).train(), draw_sequences()
    present = torch.tensor([[False, True, True]] + [[False, False, True]] * (SIZE - 1))
    states = layer(x, present)
    assert states[:, 0].abs().max() == 0
    assert states[1:, 1].abs().max() == 0
    if method != "bln":
        torch.testing.assert_close(states[0, 1], torch.tanh(layer.norm.of_step[0].bias), rtol=1e-12, atol=1e-12)
    states.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize(("cell", "method"), thinned(latin(CELLS, ["bn", "ln", "bln"]), 2))
def test_gradients_equal_finite_differences(cell, method):
    layer, x = make_normalized(cell, method).train(), draw_sequences().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *_: layer(x, PRESENT), (x, *layer.parameters()), atol=1e-5, rtol=1e-4, fast_mode=True
    )


def test_the_population_is_that_of_all_present_examples():
    """Mini-batches with two, one and four examples: the one adds nothing, the others are weighted by their number."""
    norms = TimeStepNorms(BN, 3, 1).double().eval()
    sizes = (2, 1, 4)
    torch.manual_seed(0)
    batches = [torch.randn(4, 3, dtype=torch.float64) for _ in sizes]

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = norms

        def forward(self, inputs):
            return self.norms(inputs[:, 1:], 0, inputs[:, 0] > 0)

    masks = [torch.arange(4) < size for size in sizes]
    network = Network()
    moments = {
        PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(
            network, [torch.cat([mask.double().unsqueeze(1), x], 1) for mask, x in zip(masks, batches, strict=True)]
        )
    }
    layer = norms.of_step[0]
    populations = compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=False)
    values = [x[mask] for mask, x in zip(masks, batches, strict=True) if mask.sum() > 1]
    within = sum((part - part.mean(0)).square().sum(0) for part in values)
    n = 3  # the mean of 2 and 4
    expected = n / (n - 1) * within / 6
    pair = populations[layer][PopulationEstimate.FROZEN].batch
    torch.testing.assert_close(pair.mean.flatten(), torch.cat(values).mean(0))
    torch.testing.assert_close(pair.deviation.flatten(), torch.sqrt(expected + layer.formula_variant.epsilon))


def test_a_text_has_the_same_logits_with_any_amount_of_padding():
    """Under population values; the text is the end of the sequence."""
    network = build_model("lstm", (7,), 3, LN, seed=0, options=OPTIONS, vocabulary=9).double().eval()
    text = torch.tensor([[1, 5, 8]])
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.int64), text], 1)
    torch.testing.assert_close(network(padded), network(text), rtol=1e-12, atol=1e-12)
    unmasked = build_model("lstm", (7,), 3, LN, seed=0, options={**OPTIONS, "mask_padding": False}, vocabulary=9)
    assert not torch.allclose(unmasked.double().eval()(padded), network(text))


def test_steps_that_are_always_padding_take_no_part():
    network = build_model("lstm", (4,), 3, partial(make_norm, "bn"), seed=0, options=OPTIONS, vocabulary=9).eval()
    tokens = torch.randint(1, 9, (12, 4), generator=torch.Generator().manual_seed(0))
    tokens[:, 0] = 0
    moments = collect_moments_with_frozen_weights(network, tokens.split(4))
    assert {name.rpartition(".")[2] for name in moments} == {"1", "2", "3"}


@pytest.mark.parametrize(
    ("options", "vocabulary"),
    [({"normalize": "layers"}, 9), ({"normalize": "cells_and_layers"}, 9), ({}, None)],
)
def test_masks_need_tokens_and_norms_inside_cells_alone(options, vocabulary):
    shape = (4, 2) if vocabulary is None else (4,)
    with pytest.raises(ModelError, match="mask_padding needs token ids"):
        build_model("lstm", shape, 3, LN, seed=0, options={**OPTIONS, **options}, vocabulary=vocabulary)


@pytest.mark.parametrize("method", ["bn", pytest.param("ln", marks=pytest.mark.slow)])
def test_an_exported_program_skips_padding_under_population_values(method):
    network = build_model("rnn", (3,), 3, partial(make_norm, method), seed=0, options=OPTIONS, vocabulary=9).eval()
    tokens = torch.randint(1, 9, (12, 3), generator=torch.Generator().manual_seed(0))
    tokens[::2, 0] = 0
    layers = get_norms_by_name(network)
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, tokens.split(4))}
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    for code in map(str, all_configurations(Method(method))):
        for layer in layers.values():
            layer.configure(InferenceConfiguration(code), populations[layer][PopulationEstimate.FROZEN])
        batch = torch.export.Dim("batch", min=2, max=64)

        def export(dims=({0: batch},)):
            return torch.export.export(network, (tokens,), dynamic_shapes=dims, strict=False).module()

        if method == "bn" and code != "TT--":
            with pytest.raises(ModelError, match="export a row with population values"):
                export()
            continue
        with torch.no_grad():
            torch.testing.assert_close(export()(tokens[:5]), network(tokens[:5]))
