"""The one pass over recurrent networks with norms after their layers or inside their cells."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search import evaluate_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from tests.evaluation.builders import SIZE, row_specs
from tests.evaluation.recurrent_builders import VOCABULARY, build_recurrent, collect_moments_of, draw_sequences
from tests.support.tiers import latin, part, thinned

METHODS = [(method, semantics) for method in ("bn", "ln", "bln") for semantics in ("paper", "reference")]
METHODS += [("mbn", "paper"), ("brn", "paper")]


def assert_one_pass_equals_row_by_row(network, classes=3, vocabulary=None):
    layers = get_norms_by_name(network)
    populations = compute_populations_of_layers(
        layers, collect_moments_of(network, vocabulary), Correction.BESSEL, per_slot=False
    )
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    inputs, targets = draw_sequences(20, 2, classes, vocabulary)
    batches = list(iter_mini_batches_with_fillers(inputs, targets, SIZE))
    fused = evaluate_rows_per_example(network, batches, rows, populations)
    plain = evaluate_rows_per_example(network, batches, rows, populations, one_pass=False)
    for row, fused_outcomes, plain_outcomes in zip(rows, fused, plain, strict=True):
        np.testing.assert_allclose(
            fused_outcomes.losses, plain_outcomes.losses, rtol=1e-11, atol=1e-11, err_msg=str(row)
        )
        assert len(fused_outcomes.losses) == 20
    return rows, plain


@pytest.mark.parametrize(
    ("cell", "method", "semantics"),
    part(
        [(cell, *method) for cell in ("rnn", "lstm", "gru") for method in METHODS],
        lambda *case: case in {("rnn", "bln", "paper"), ("lstm", "bn", "paper"), ("gru", "ln", "paper")},
    ),
)
def test_normalized_cells_equal_row_by_row_evaluation(cell, method, semantics):
    rows, outcomes = assert_one_pass_equals_row_by_row(build_recurrent(cell, method, semantics))
    assert len(rows) == {"bln": 16, "mbn": 9}.get(method, 4)
    mean_losses = {row_outcomes.losses.mean() for row_outcomes in outcomes}
    assert len(mean_losses) == len(rows), "each configuration has its own loss"


@pytest.mark.parametrize(
    ("method", "cell"),
    thinned(latin(["bn", "ln", "bln", "mbn", "brn", "none"], ["rnn", "lstm", "gru", "cell_output"]), 3),
)
def test_masked_padding_equals_row_by_row(method, cell):
    """Texts with different amounts of padding: a step has from no to all examples of a mini-batch."""
    placement = "cell_output" if cell == "cell_output" else "cells"
    model = "lstm" if cell == "cell_output" else cell
    network = build_recurrent(model, method, normalize=placement, vocabulary=VOCABULARY, mask_padding=True)
    rows, outcomes = assert_one_pass_equals_row_by_row(network, vocabulary=VOCABULARY)
    assert len({row_outcomes.losses.mean() for row_outcomes in outcomes}) == len(rows)


def test_norms_inside_cells_and_after_layers_equal_row_by_row():
    assert_one_pass_equals_row_by_row(build_recurrent("lstm", normalize="cells_and_layers"))


@pytest.mark.filterwarnings("ignore:ill-conditioned")  # a row may be one: outputs are amplified by 1e7
def test_rounding_is_not_mistaken_for_mixing_with_token_ids():
    network = build_recurrent("lstm", "bn", vocabulary=VOCABULARY).float()
    layers = get_norms_by_name(network)
    for layer in layers.values():
        layer.weight.data.mul_(1e4)
    network.classifier[-1].weight.data.mul_(1e3)
    populations = compute_populations_of_layers(
        layers, collect_moments_of(network, VOCABULARY), Correction.BESSEL, per_slot=False
    )
    inputs, targets = draw_sequences(20, 2, vocabulary=VOCABULARY)
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    assert (
        len(
            evaluate_rows_per_example(network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations)
        )
        == 4
    )


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_network_with_normalized_cells_has_a_ranked_table(cell):
    network = build_recurrent(cell)
    batches = [list(iter_mini_batches_with_fillers(*draw_sequences(24, seed), SIZE)) for seed in (3, 4)]
    fused, plain = (evaluate_configurations(network, *batches, one_pass=one_pass) for one_pass in (True, False))
    assert [row.configuration for row in fused] == [row.configuration for row in plain]
    assert len(list(fused)) == 16
