"""A network is compared with plain passes once, and again after a change that could make them differ."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method
from bln_search.evaluation import evaluate_rows_per_example, one_pass
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.norms import BLN
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.tasks.cross_entropy import cross_entropy_and_correctness
from tests.evaluation.builders import frozen_populations

ROWS = tuple(
    InferenceRow(configuration, PopulationEstimate.FROZEN if configuration.uses_population else None)
    for configuration in all_configurations(Method.BLN)
)


@pytest.fixture
def checks(monkeypatch):
    """Evaluators that were compared with plain passes."""
    evaluators = []
    original = one_pass.check_fused_passes

    def record(evaluator, pair):
        evaluators.append(evaluator)
        original(evaluator, pair)

    monkeypatch.setattr(one_pass, "check_fused_passes", record)
    return evaluators


def make_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), BLN(4), nn.Tanh(), nn.Linear(4, 3)).eval()


def evaluate(network, size=5, n=20, rows=ROWS, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    inputs, targets = torch.randn(n, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)
    batches = list(iter_mini_batches_with_fillers(inputs, targets, size))
    populations = frozen_populations(network, [x for x, _ in batches])
    return evaluate_rows_per_example(network, batches, rows, populations, **options)


def test_other_data_sizes_and_populations_are_not_compared_again(checks):
    network = make_network()
    for options in ({}, {"seed": 1}, {"size": 10}, {"n": 13}):
        evaluate(network, **options)
    assert len(checks) == 1


def replace_hook(network):
    network.hook.remove()
    network[3].register_forward_hook(lambda *_: None)


def replace_forward(network):
    network[2].forward = torch.sigmoid


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda network: network.append(nn.Identity()), {}),
        (replace_hook, {}),
        (replace_forward, {}),
        (lambda network: network[2].register_forward_pre_hook(lambda *_: None), {}),
        (lambda network: setattr(network, "adds_positions", True), {}),
        (lambda network: None, {"rows": ROWS[:3]}),
    ],
    ids=["module", "hook", "forward", "pre-hook", "attribute", "rows"],
)
def test_a_change_is_compared_again(checks, change, options):
    network = make_network()
    network.hook = network[3].register_forward_hook(lambda *_: None)
    evaluate(network)
    change(network)
    for _ in range(2):
        evaluate(network, **options)
    assert len(checks) == 2


def weigh_losses(outputs, targets, weight):
    losses, correct = cross_entropy_and_correctness(outputs, targets)
    return losses * weight, correct


def test_a_score_of_the_user_is_compared_every_time(checks):
    network = make_network()
    for weight in (1.0, 2.0):
        evaluate(network, score=lambda *batch, weight=weight: weigh_losses(*batch, weight))
    assert len(checks) == 2
