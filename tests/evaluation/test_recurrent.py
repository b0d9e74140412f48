"""Recurrent networks, normalized behind their layers and inside their cells, in one pass."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from bln_search import evaluate_configurations
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import collect_frozen_moments, evaluate_rows
from bln_search.evaluation.batches import mini_batches
from bln_search.models import build_model
from bln_search.norms import make_norm
from bln_search.norms.network_layers import find_norms, layer_estimates, network_populations
from tests.evaluation.test_one_pass import SIZE, rows_of
from tests.support.tiers import part

STEPS, WORDS = 4, 9
SMALL = {"widths": (5, 4), "embedding": 3, "dense": 4}
METHODS = [(method, semantics) for method in ("bn", "ln", "bln") for semantics in ("paper", "reference")]
METHODS += [("mbn", "paper"), ("brn", "paper")]


def build(cell, method="bln", semantics="paper", normalize="cells", classes=3, vocabulary=None):
    """In double precision, trained for no step, with its own γ and β in every norm."""
    norm = partial(make_norm, method, semantics=semantics, batch_size=SIZE)
    shape = (STEPS, 2) if vocabulary is None else (STEPS,)
    options = {**SMALL, "normalize": normalize}
    network = build_model(cell, shape, classes, norm, seed=0, options=options, vocabulary=vocabulary).double()
    torch.manual_seed(1)
    with torch.no_grad():
        for layer in find_norms(network).values():
            layer.weight.normal_(1, 0.3)
            layer.bias.normal_(0, 0.3)
    return network.eval()


def data(n, seed=0, classes=3, vocabulary=None):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, classes, (n,), generator=generator)
    if vocabulary is not None:
        return torch.randint(0, vocabulary, (n, STEPS), generator=generator), targets
    return torch.randn(n, STEPS, 2, generator=generator, dtype=torch.float64), targets


def gathered_by(network, vocabulary=None):
    """Frozen population values, and what layers with a history gathered over a few training passes."""
    network.train()
    inputs = data(4 * SIZE, 1, vocabulary=vocabulary)[0]
    with torch.no_grad():
        for x in inputs.split(SIZE):
            network(x)
    network.eval()
    return {
        PopulationEstimate.FROZEN: collect_frozen_moments(network, inputs.split(SIZE)),
        **layer_estimates(find_norms(network)),
    }


def assert_one_pass_is_row_by_row(network, classes=3, vocabulary=None):
    layers = find_norms(network)
    populations = network_populations(layers, gathered_by(network, vocabulary), Correction.BESSEL, per_slot=False)
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    inputs, targets = data(20, 2, classes, vocabulary)
    batches = list(mini_batches(inputs, targets, SIZE))
    together = evaluate_rows(network, batches, rows, populations)
    alone = evaluate_rows(network, batches, rows, populations, one_pass=False)
    for row, one, other in zip(rows, together, alone, strict=True):
        np.testing.assert_allclose(one.losses, other.losses, rtol=1e-11, atol=1e-11, err_msg=str(row))
        assert len(one.losses) == 20
    return rows, alone


@pytest.mark.parametrize(
    ("cell", "method", "semantics"),
    part(
        [(cell, *one) for cell in ("rnn", "lstm", "gru") for one in METHODS],
        lambda cell, *one: cell == "lstm" or one == ("bln", "paper"),
    ),
)
def test_normalized_cells_equal_row_by_row_evaluation(cell, method, semantics):
    rows, alone = assert_one_pass_is_row_by_row(build(cell, method, semantics))
    assert len(rows) == {"bln": 16, "mbn": 9}.get(method, 4)
    means = {one.losses.mean() for one in alone}
    assert len(means) == len(rows), "each configuration says something of its own"


@pytest.mark.parametrize("method", ["bn", "ln", "bln", "mbn"])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_norms_after_recurrent_layers_equal_row_by_row(cell, method):
    assert_one_pass_is_row_by_row(build(cell, method, normalize="layers"))


@pytest.mark.parametrize("normalize", ["layers", "cells"])
@pytest.mark.parametrize("classes", [2, 3])
def test_token_ids_and_two_classes_equal_row_by_row(normalize, classes):
    network = build("lstm", normalize=normalize, classes=classes, vocabulary=WORDS)
    assert_one_pass_is_row_by_row(network, classes, WORDS)


def test_rounding_is_not_mistaken_for_mixing_with_token_ids():
    network = build("lstm", "bn", vocabulary=WORDS).float()
    layers = find_norms(network)
    for layer in layers.values():
        layer.weight.data.mul_(1e4)
    network.classifier[-1].weight.data.mul_(1e3)
    populations = network_populations(layers, gathered_by(network, WORDS), Correction.BESSEL, per_slot=False)
    inputs, targets = data(20, 2, vocabulary=WORDS)
    rows = rows_of(network, (PopulationEstimate.FROZEN,))
    assert len(evaluate_rows(network, mini_batches(inputs, targets, SIZE), rows, populations)) == 4


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_a_network_with_normalized_cells_has_a_ranked_table(cell):
    network = build(cell)
    batches = [list(mini_batches(*data(24, seed), SIZE)) for seed in (3, 4)]
    ranked, alone = (evaluate_configurations(network, *batches, one_pass=one_pass) for one_pass in (True, False))
    assert [row.configuration for row in ranked] == [row.configuration for row in alone]
    assert len(list(ranked)) == 16
