"""Losses that compare the examples of a split do not depend on the mini-batches in which outputs are computed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.one_pass import evaluate_rows_per_example
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.norms import BLN
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search_papers.ln.retrieval import RetrievalScore

SIZE, EXAMPLES = 4, 14
SCORE = RetrievalScore("order", 0.2)


class TwoEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 6), BLN(6), nn.ReLU(), nn.Linear(6, 8))

    def forward(self, x):
        return self.layers(x).unflatten(1, (2, 4))


@pytest.fixture
def evaluated():
    """A network with inputs, labels, rows and populations."""
    torch.manual_seed(0)
    network = TwoEmbeddings().eval()
    inputs, labels = torch.randn(EXAMPLES, 5), torch.arange(EXAMPLES) // 2
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, inputs[:12].split(SIZE))}
    populations = compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=False)
    rows = [
        InferenceRow(InferenceConfiguration(code), PopulationEstimate.FROZEN if "T" in code else None)
        for code in ("FFFF", "TTFF", "TFTF", "FFTT")
    ]
    return network, inputs, labels, rows, populations


def plain_outputs(network, inputs, row, populations):
    with torch.no_grad(), use_row_in_all_layers(row, populations):
        batches = [
            network(inputs[[(start + offset) % EXAMPLES for offset in range(SIZE)]])
            for start in range(0, EXAMPLES, SIZE)
        ]
    return torch.cat(batches)[:EXAMPLES]


@pytest.mark.parametrize("one_pass", [True, False])
def test_losses_are_those_of_all_outputs_together(evaluated, one_pass):
    network, inputs, labels, rows, populations = evaluated
    observed = {}

    outcomes = evaluate_rows_per_example(
        network,
        iter_mini_batches_with_fillers(inputs, labels, SIZE),
        rows,
        populations,
        score=SCORE,
        one_pass=one_pass,
        observe=lambda row, outputs, _: observed.setdefault(row, []).append(outputs.clone()),
    )

    for row, outcome in zip(rows, outcomes, strict=True):
        outputs = plain_outputs(network, inputs, row, populations)
        np.testing.assert_allclose(
            outcome.losses, SCORE.score_examples_together(outputs, labels)[0], rtol=1e-4, atol=1e-5
        )
        np.testing.assert_allclose(torch.cat(observed[row]), outputs, rtol=1e-4, atol=1e-5)
    assert len({tuple(outcome.losses.round(4)) for outcome in outcomes}) == len(rows)
