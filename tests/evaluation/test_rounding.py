"""Rounding errors of the one pass: neither hidden, nor mistaken for mixing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.enums import PopulationEstimate
from bln_search.evaluation import evaluate_rows_per_example
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.row_evaluator import try_copy_network_and_populations_in_double
from bln_search.evaluation.split_outcomes import EarlierParts, join_outcomes
from bln_search.norms import BLN, BN
from tests.evaluation.builders import (
    SIZE,
    build_network,
    draw_examples,
    estimate_populations,
    frozen_populations,
    row_specs,
)
from tests.evaluation.plain_passes import assert_equal_to_plain_passes, plain_losses


@pytest.mark.parametrize("name", ["lenet", "mlp", "residual"])
def test_single_precision_agrees_to_a_ten_thousandth(name):
    network = build_network(name, dtype=torch.float32)
    populations = estimate_populations(network, name, dtype=torch.float32)
    assert_equal_to_plain_passes(network, name, populations, row_specs(network), tolerance=1e-4)


class Chaotic(nn.Module):
    """Treats examples independently, but doubles every difference `times` times."""

    def __init__(self, times=14):
        super().__init__()
        self.times = times

    def forward(self, x):
        x = torch.tanh(x)
        for _ in range(self.times):
            x = 1 - 2 * x * x
        return x


def chaotic_arguments(times):
    """Return arguments of `evaluate_rows_per_example` for a chaotic network in double precision."""
    torch.manual_seed(0)
    parts = nn.Flatten(), nn.Linear(12, 8), BN(8), nn.Linear(8, 8), Chaotic(times), nn.Linear(8, 10)
    network = nn.Sequential(*parts).double().eval()
    inputs, targets = torch.randn(48, 3, 2, 2).double(), torch.randint(0, 10, (48,))
    populations = frozen_populations(network, inputs.split(SIZE))
    return (
        network,
        iter_mini_batches_with_fillers(inputs, targets, SIZE),
        row_specs(network, (PopulationEstimate.FROZEN,)),
        populations,
    )


def test_invisible_rounding_is_not_ill_conditioned():
    """Rounding makes losses of the one pass and plain passes differ by 1e-6. A warning would fail this test."""
    evaluate_rows_per_example(*chaotic_arguments(34))


def test_no_higher_precision_is_offered_in_double_precision():
    with pytest.warns(UserWarning, match=r"ill-conditioned.* no higher precision"):
        evaluate_rows_per_example(*chaotic_arguments(47))


def test_amplified_rounding_is_not_mistaken_for_mixing():
    """Double precision distinguishes the two. Divergent training produces such networks."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), BN(8), nn.Linear(8, 8), Chaotic(), nn.Linear(8, 10)).eval()
    inputs, targets = torch.randn(24, 3, 2, 2), torch.randint(0, 10, (24,))
    populations = frozen_populations(network, inputs.split(SIZE))
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    with pytest.warns(UserWarning, match="ill-conditioned"):
        outcomes = evaluate_rows_per_example(
            network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations
        )
    double_network, double_populations = try_copy_network_and_populations_in_double(network, populations)
    for row, outcome in zip(rows, outcomes, strict=True):
        expected = plain_losses(double_network, inputs.double(), targets, double_populations, row)
        assert np.abs(outcome.losses - expected).mean() < 1e-3


@pytest.mark.parametrize("one_pass", [True, False])
def test_later_parts_of_a_split_know_the_rows_with_rounding_errors(one_pass):
    """A second warning would fail this test."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(12, 8), BN(8), nn.Linear(8, 8), Chaotic(18), nn.Linear(8, 10)
    ).eval()
    inputs, targets = torch.randn(24, 3, 2, 2), torch.randint(0, 10, (24,))
    populations = frozen_populations(network, inputs.split(SIZE))
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    batches = list(iter_mini_batches_with_fillers(inputs, targets, SIZE))
    with pytest.warns(UserWarning, match="ill-conditioned"):
        complete = evaluate_rows_per_example(network, batches, rows, populations, one_pass=one_pass)
    earlier = EarlierParts()
    with pytest.warns(UserWarning, match="ill-conditioned"):
        first = evaluate_rows_per_example(network, batches[:2], rows, populations, one_pass=one_pass, earlier=earlier)
    assert earlier.ill_conditioned
    second = evaluate_rows_per_example(network, batches[2:], rows[1:], populations, one_pass=one_pass, earlier=earlier)
    for *parts, expected in zip(first[1:], second, complete[1:], strict=True):
        joined = join_outcomes(parts, np.arange(24))
        assert np.abs(joined.losses - expected.losses).mean() < 1e-3


def test_inputs_far_from_zero_cause_no_cancellation():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), BN(192), nn.Linear(192, 12), nn.Tanh(), BLN(12), nn.Linear(12, 10)).eval()
    inputs, targets = draw_examples("mlp", dtype=torch.float32)
    inputs = inputs + 1e4
    populations = frozen_populations(network, inputs[:18].split(SIZE))
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    results = evaluate_rows_per_example(
        network, iter_mini_batches_with_fillers(inputs, targets, SIZE), rows, populations
    )
    for row, outcome in zip(rows, results, strict=True):
        np.testing.assert_allclose(
            outcome.losses, plain_losses(network, inputs, targets, populations, row), rtol=1e-4, atol=1e-5
        )
