"""The one pass gives the losses that plain forward passes give in each row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.core.errors import DataError, ModelError
from bln_search.evaluation import collect_moments_with_frozen_weights, evaluate_rows_per_example, one_pass
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.one_pass import _KeptOutputs
from bln_search.evaluation.row_evaluator import RowEvaluator
from bln_search.norms import BN, MBN
from bln_search.norms.network.layers import (
    compute_populations_of_layers,
    get_norms_by_name,
    list_possible_configurations,
    moments_by_estimate_from_training_history,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow
from tests.evaluation.builders import (
    SIZE,
    build_network,
    draw_examples,
    estimate_populations,
    row_specs,
)
from tests.evaluation.networks import NETWORKS
from tests.evaluation.plain_passes import assert_equal_to_plain_passes
from tests.support.tiers import latin, thinned


@pytest.mark.parametrize(("name", "semantics"), thinned(latin(NETWORKS, ["paper", "reference"]), 2))
def test_bln_losses_equal_plain_passes(name, semantics):
    network = build_network(name, semantics=semantics)
    populations = estimate_populations(network, name)
    assert_equal_to_plain_passes(network, name, populations, row_specs(network))


@pytest.mark.parametrize("name", thinned(NETWORKS, 4, start=1))
def test_one_gain_for_each_unit_at_positions_equals_plain_passes(name):
    network = build_network(name, affine="unit")
    assert_equal_to_plain_passes(network, name, estimate_populations(network, name), row_specs(network))


@pytest.mark.parametrize("name", thinned(NETWORKS, 4, start=2))
def test_mbn_losses_equal_plain_passes(name):
    network = build_network(name, method="mbn")
    network.train()
    with torch.no_grad():
        for x in draw_examples(name, 24)[0].split(SIZE):
            network(x * 2 + 0.3)
    network.eval()
    layers = get_norms_by_name(network)
    frozen = collect_moments_with_frozen_weights(network, draw_examples(name, 48)[0].split(SIZE))
    moments = {PopulationEstimate.FROZEN: frozen, **moments_by_estimate_from_training_history(layers)}
    populations = compute_populations_of_layers(layers, moments, Correction.BESSEL, per_slot=False)
    rows = row_specs(network, (PopulationEstimate.FROZEN,))
    assert len({row.configuration for row in rows}) == 9
    assert_equal_to_plain_passes(network, name, populations, rows)


def test_mbn_mixed_with_another_method_is_an_error():
    network = nn.Sequential(MBN(3), BN(3))
    with pytest.raises(ModelError, match="mixes mbn"):
        list_possible_configurations(get_norms_by_name(network))


@pytest.mark.parametrize("name", thinned(["lenet", "residual"], 2))
def test_a_small_memory_limit_does_not_change_losses(name):
    network = build_network(name)
    populations = estimate_populations(network, name)
    assert_equal_to_plain_passes(network, name, populations, row_specs(network), memory_limit=60_000)
    assert_equal_to_plain_passes(network, name, populations, row_specs(network), memory_limit=1)


def test_layers_before_the_first_norm_run_once():
    network = build_network("lenet")
    populations = estimate_populations(network, "lenet")
    examples = []
    network.features[0].register_forward_hook(lambda module, inputs, output: examples.append(len(inputs[0])))
    inputs, targets = draw_examples("lenet", n=24)
    evaluate_rows_per_example(
        network, iter_mini_batches_with_fillers(inputs, targets, SIZE), row_specs(network), populations
    )
    measurement = SIZE
    checks_before = 2 * SIZE * (1 + 3)  # two mini-batches: one fused pass, and plain passes in three rows
    checks_during = 24  # each mini-batch: a plain pass in one row
    assert sum(examples) == 24 + measurement + checks_before + checks_during


def test_a_network_without_norms_is_an_error_with_a_remedy():
    with pytest.raises(ModelError, match=r"bln_search.convert\(model\)"):
        evaluate_rows_per_example(nn.Linear(3, 2), [], [], {})


def test_no_data_is_an_error():
    network = build_network("mlp")
    row = InferenceRow(InferenceConfiguration("FFFF"), None)
    with pytest.raises(DataError, match="no mini-batch"):
        evaluate_rows_per_example(network, [], [row], {})


def test_the_network_is_not_changed():
    network = build_network("residual")
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    populations = estimate_populations(network, "residual")
    inputs, targets = draw_examples("residual")
    evaluate_rows_per_example(
        network, iter_mini_batches_with_fillers(inputs, targets, SIZE), row_specs(network), populations
    )
    assert network.training
    assert network.state_dict().keys() == before.keys()
    for name, value in network.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


@pytest.mark.parametrize("kept_bytes", [0, 10**9])
def test_observed_outputs_give_the_losses_whether_they_are_kept_or_computed_again(kept_bytes, monkeypatch):
    network = build_network("mlp")
    populations, rows = estimate_populations(network, "mlp"), row_specs(network)
    inputs, targets = draw_examples("mlp", 3 * SIZE + 2)
    observed = {row: [] for row in rows}
    computed = []
    outputs_of = RowEvaluator.iter_fused_outputs

    def count_passes(self, group, chosen=None):
        computed.append(chosen)
        return outputs_of(self, group, chosen)

    def observe(row, outputs, batch_targets):
        observed[row].append(nn.functional.cross_entropy(outputs, batch_targets, reduction="none"))

    monkeypatch.setattr(RowEvaluator, "iter_fused_outputs", count_passes)
    monkeypatch.setattr(
        one_pass, "_KeptOutputs", lambda evaluator, group, _limit: _KeptOutputs(evaluator, group, kept_bytes)
    )
    batches = list(iter_mini_batches_with_fillers(inputs, targets, SIZE))
    outcomes = evaluate_rows_per_example(network, batches, rows, populations, observe=observe)
    for row, outcome in zip(rows, outcomes, strict=True):
        np.testing.assert_allclose(torch.cat(observed[row]), outcome.losses, rtol=1e-5)
    passes_of_all_rows = sum(chosen is None for chosen in computed)
    groups = len(observed[rows[0]])
    assert passes_of_all_rows == (groups if kept_bytes else 2 * groups)
