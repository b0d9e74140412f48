"""Rows with moving statistics have the losses of plain passes in the order of the mini-batches, beside other rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.blend import PopulationWeight, blended_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.evaluation import evaluate_rows_per_example
from bln_search.evaluation.batches import BatchGroup, iter_mini_batches_with_fillers
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.evaluation.split_outcomes import EarlierParts
from bln_search.norms import BN
from bln_search.norms.network.layers import get_norms_by_name, reset_stream
from bln_search.norms.row_batching.row_tensor import InferenceRow
from tests.evaluation.builders import (
    SIZE,
    build_network,
    draw_examples,
    estimate_populations,
    frozen_populations,
    row_specs,
)
from tests.evaluation.networks import NETWORKS
from tests.evaluation.plain_passes import assert_equal_to_plain_passes
from tests.evaluation.test_rounding import Chaotic
from tests.support.tiers import latin, thinned

WEIGHTS = (PopulationWeight(0.9), PopulationWeight(16, is_prior=True))
VARIANTS = [("bln", "paper"), ("bln", "reference"), ("bn", "paper"), ("ln", "paper")]


def with_moving(rows):
    """The rows, each that reads the population also with moving statistics."""
    moving = [
        InferenceRow(row.configuration.with_moving_for_population, blended_estimate_label(row.estimate, weight))
        for row in rows
        if row.estimate == PopulationEstimate.FROZEN
        for weight in WEIGHTS
    ]
    return [*moving[::2], *rows, *moving[1::2]]


def evaluate(network, rows, populations, batches, **options):
    return evaluate_rows_per_example(network, batches, rows, populations, **options)


def make_case(name="mlp", method="bn", dtype=torch.float64):
    network = build_network(name, method=method, dtype=dtype)
    populations = estimate_populations(network, name, dtype=dtype)
    batches = list(iter_mini_batches_with_fillers(*draw_examples(name, n=24, dtype=dtype), SIZE))
    return network, populations, batches, with_moving(row_specs(network, (PopulationEstimate.FROZEN,)))


@pytest.mark.parametrize(("name", "variant"), thinned(latin(NETWORKS, VARIANTS), 3))
def test_moving_losses_equal_plain_passes_in_order(name, variant):
    method, semantics = variant
    network = build_network(name, method=method, semantics=semantics)
    rows = with_moving(row_specs(network, (PopulationEstimate.FROZEN,)))
    assert_equal_to_plain_passes(network, name, estimate_populations(network, name), rows)


@pytest.mark.parametrize("one_pass", [True, False])
@pytest.mark.parametrize("memory_limit", [1, 2**28])
def test_losses_are_those_of_the_layers_one_after_the_other(one_pass, memory_limit):
    network, populations, batches, rows = make_case()
    results = evaluate(network, rows, populations, batches, one_pass=one_pass, memory_limit=memory_limit)
    for row, outcome in zip(rows, results, strict=True):
        copied = copy.deepcopy(network)
        for layer, original in zip(
            get_norms_by_name(copied).values(), get_norms_by_name(network).values(), strict=True
        ):
            values = populations[original].get(row.population_name)
            layer.configure(row.configuration, values, row.blend)
        losses = [F.cross_entropy(copied(x)[: len(y)], y, reduction="none") for x, y in batches]
        np.testing.assert_allclose(outcome.losses, torch.cat(losses).detach().numpy(), rtol=1e-10)


def test_the_order_of_the_mini_batches_counts_for_moving_rows_only():
    network, populations, batches, rows = make_case()
    forward, backward = (evaluate(network, rows, populations, order) for order in (batches, batches[::-1]))
    for row, first, second in zip(rows, forward, backward, strict=True):
        same = np.allclose(first.losses.reshape(4, -1), second.losses.reshape(4, -1)[::-1], rtol=1e-12)
        assert same != row.configuration.is_moving


def test_parts_of_a_split_continue_the_streams_though_rows_leave():
    network, populations, batches, rows = make_case(dtype=torch.float32)
    whole = evaluate(network, rows, populations, batches)
    earlier = EarlierParts()
    first = evaluate(network, rows, populations, batches[:2], earlier=earlier)
    second = evaluate(network, rows[3:], populations, batches[2:], earlier=earlier)
    for index in range(3, len(rows)):
        joined = np.concatenate([first[index].losses, second[index - 3].losses])
        np.testing.assert_allclose(joined, whole[index].losses, rtol=1e-5, err_msg=rows[index].label)


def test_only_moving_rows_are_evaluated_without_a_fused_pass():
    network, populations, batches, rows = make_case()
    moving = [row for row in rows if row.configuration.is_moving]
    together, alone = (evaluate(network, chosen, populations, iter(batches)) for chosen in (rows, moving))
    by_row = dict(zip(rows, together, strict=True))
    for row, outcome in zip(moving, alone, strict=True):
        np.testing.assert_array_equal(outcome.losses, by_row[row].losses)


def test_outputs_and_progress_are_observed_once_for_each_example():
    network, populations, batches, rows = make_case()
    seen, counts = {row: [] for row in rows}, []
    results = evaluate(
        network,
        rows,
        populations,
        batches,
        observe=lambda row, outputs, targets: seen[row].append(F.cross_entropy(outputs, targets, reduction="none")),
        progress=counts.append,
    )
    assert sum(counts) == 24
    for row, outcome in zip(rows, results, strict=True):
        np.testing.assert_allclose(torch.cat(seen[row]).numpy(), outcome.losses, rtol=1e-12)


def test_the_network_keeps_its_own_stream():
    network, populations, batches, rows = make_case()
    layer = next(iter(get_norms_by_name(network).values()))
    layer.configure(rows[0].configuration, populations[layer]["frozen"], rows[0].blend)
    network(batches[0][0])
    values = layer.moving_values
    expected = network(batches[1][0])
    layer.moving_values = values
    evaluate(network, rows, populations, batches)
    assert layer.moving_values is values
    assert torch.equal(network(batches[1][0]), expected)
    reset_stream(network)
    assert layer.moving_values is None


def test_ill_conditioned_moving_rows_are_evaluated_in_double_precision():
    torch.manual_seed(0)
    parts = nn.Flatten(), nn.Linear(12, 8), BN(8), nn.Linear(8, 8), Chaotic(), nn.Linear(8, 10)
    network = nn.Sequential(*parts).eval()
    inputs, targets = torch.randn(24, 3, 2, 2), torch.randint(0, 10, (24,))
    batches = list(iter_mini_batches_with_fillers(inputs, targets, SIZE))
    populations = frozen_populations(network, inputs.split(SIZE))
    row = InferenceRow(InferenceConfiguration("EE--"), "frozen@0.9")
    with pytest.warns(UserWarning, match="ill-conditioned"):
        single = evaluate(network, [row], populations, batches)[0]
    double = RowEvaluator(network, [row], populations, is_fused=False).try_copy_in_double_precision(batches[0][0])
    outputs = double.plain_outputs_one_after_the_other(0, [inputs for inputs, _ in batches])
    losses = [F.cross_entropy(o.float(), t, reduction="none") for o, (_, t) in zip(outputs, batches, strict=True)]
    np.testing.assert_allclose(single.losses, torch.cat(losses).detach().numpy(), rtol=1e-4)


def test_a_fused_pass_refuses_moving_rows():
    network, populations, batches, rows = make_case()
    evaluator = RowEvaluator(network, rows, populations)
    with pytest.raises(ModelError, match=r"EE--.*plain passes in the order"):
        evaluator.fused_scores(BatchGroup(*batches[0], 1, SIZE))
