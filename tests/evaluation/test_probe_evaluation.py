"""Probes equal plain forward passes at other batch sizes and batch compositions; latency is measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import Correction, PopulationEstimate, ProbeKind, Split
from bln_search.core.method import Method
from bln_search.evaluation import collect_moments_with_frozen_weights, evaluate_split
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.probe_evaluation import ValidationProbe
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.evaluation.timing import measure_latency_per_row
from bln_search.norms import BLN
from bln_search.norms.network.layers import compute_populations_of_layers, get_norms_by_name
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.specs.sections.task import TaskSpec
from bln_search.tasks import make_task
from tests.evaluation.builders import SIZE as TASK_SIZE
from tests.evaluation.builders import frozen_populations, row_specs
from tests.evaluation.task_networks import TASK_CASES

SIZE, N = 10, 83


@pytest.fixture(scope="module")
def trained():
    """A network that distinguishes three classes, its validation examples, rows and populations."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), BLN(12, batch_size=SIZE), nn.Linear(12, 3)).double()
    targets = torch.arange(N) % 3
    inputs = torch.randn(N, 6, dtype=torch.float64) + F.one_hot(targets, 6)
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, inputs[:80].split(SIZE))}
    populations = compute_populations_of_layers(get_norms_by_name(network), moments, Correction.BESSEL, per_slot=False)
    rows = [
        InferenceRow(configuration, PopulationEstimate.FROZEN if configuration.uses_population else None)
        for configuration in all_configurations(Method.BLN)
    ]
    return network, inputs, targets, rows, populations


def test_a_size_probe_equals_evaluation_at_that_size(trained):
    network, inputs, targets, rows, populations = trained
    for size in (1, 4, SIZE, N):
        probes = ValidationProbe(*trained).probe_at_batch_size(size)
        batches = iter_mini_batches_with_fillers(inputs, targets, size)
        evaluations = evaluate_split(network, batches, rows, populations, split=Split.VALIDATION, batch_size=size)
        assert [(probe.key, probe.loss, probe.accuracy) for probe in probes] == [
            (evaluation.key, evaluation.loss, evaluation.accuracy)
            for evaluation in evaluations
            if evaluation.loss is not None
        ]
        assert {(probe.kind, probe.epoch, probe.n) for probe in probes} == {(ProbeKind.SIZE, 0, N)}


def test_reshuffled_probes_equal_plain_passes_in_each_order(trained):
    """The expected values come from plain forward passes over the same orders, sorted back into the data order."""
    network, inputs, targets, rows, populations = trained
    probes = ValidationProbe(*trained).probe_batch_composition(SIZE, reshuffles=3, seed=5)
    generator = torch.Generator().manual_seed(5)
    orders = [torch.randperm(N, generator=generator) for _ in range(3)]
    for row in rows:
        probe = next(
            probe
            for probe in probes
            if probe.kind is ProbeKind.RESHUFFLED and probe.key.configuration == row.configuration
        )
        _, reference = plain_losses_and_classes(network, row, populations, inputs, targets, torch.arange(N))
        passes = [plain_losses_and_classes(network, row, populations, inputs, targets, order) for order in orders]
        losses = np.stack([loss for loss, _ in passes])
        flips = np.mean([classes[n] != reference[n] for _, classes in passes for n in range(N)])
        assert probe.loss == pytest.approx(losses.mean(), rel=1e-10)
        assert probe.deviation == pytest.approx(np.sqrt(losses.var(axis=0, ddof=1).mean()), rel=1e-6, abs=1e-12)
        assert probe.flips == pytest.approx(flips)
        assert probe.accuracy == pytest.approx(np.mean([classes == targets.numpy() for _, classes in passes]))
        assert probe.n == N


def plain_losses_and_classes(network, row, populations, inputs, targets, order):
    losses, classes = np.empty(N), np.empty(N, int)
    x, y = inputs[order], targets[order]
    with torch.no_grad(), use_row_in_all_layers(row, populations):
        network.eval()
        for start in range(0, N, SIZE):
            missing = max(0, start + SIZE - N)
            batch = torch.cat([x[start : start + SIZE], x[:missing]])
            outputs = network(batch)[: SIZE - missing]
            indices = order[start : start + SIZE].numpy()
            losses[indices] = F.cross_entropy(outputs, y[start : start + SIZE], reduction="none").numpy()
            classes[indices] = outputs.argmax(1).numpy()
    return losses, classes


def test_only_deterministic_rows_ignore_the_batch_composition(trained):
    rows = trained[3]
    probes = ValidationProbe(*trained).probe_batch_composition(SIZE, reshuffles=4, seed=0)
    for probe in probes:
        deviation = probe.deviation if probe.kind is ProbeKind.RESHUFFLED else None
        if probe.key.configuration.is_deterministic:
            assert probe.flips == 0
            assert deviation is None or deviation < 1e-12
        else:
            assert probe.flips > 0
            assert deviation is None or deviation > 1e-3
    assert len(probes) == 2 * len(rows)
    assert sum(probe.flips for probe in probes if probe.kind is ProbeKind.SKEWED) > 0


def test_one_reshuffle_has_no_deviation(trained):
    probes = replace(ValidationProbe(*trained), rows=trained[3][:1]).probe_batch_composition(SIZE, reshuffles=1, seed=0)
    assert [probe.deviation for probe in probes] == [None, None]


@pytest.fixture(params=TASK_CASES)
def task_and_arguments(request):
    """A task, and the arguments of the probes of its network."""
    spec, draw = TASK_CASES[request.param]
    torch.manual_seed(0)
    network, inputs, training, targets = draw()
    populations = frozen_populations(network, training.split(TASK_SIZE))
    return make_task(spec), (network, inputs, targets, row_specs(network, [PopulationEstimate.FROZEN]), populations)


def test_a_size_probe_of_every_task_equals_evaluation_at_that_size(task_and_arguments):
    task, arguments = task_and_arguments
    network, inputs, targets, rows, populations = arguments
    has_accuracy = task.description.has_accuracy
    for size in (2, TASK_SIZE):
        probes = ValidationProbe(*arguments, task=task).probe_at_batch_size(size)
        evaluations = evaluate_split(
            network,
            iter_mini_batches_with_fillers(inputs, targets, size),
            rows,
            populations,
            split=Split.VALIDATION,
            batch_size=size,
            score=task.score,
            has_accuracy=has_accuracy,
        )
        assert [(probe.key, probe.loss, probe.accuracy) for probe in probes] == [
            (evaluation.key, evaluation.loss, evaluation.accuracy) for evaluation in evaluations
        ]
        assert {probe.accuracy is not None for probe in probes} == {has_accuracy}


def test_reshuffled_losses_of_a_task_without_classes_equal_plain_passes(task_and_arguments):
    task, arguments = task_and_arguments
    network, inputs, targets, rows, populations = arguments
    probes = ValidationProbe(*arguments, task=task).probe_batch_composition(2, reshuffles=3, seed=5)
    assert [(probe.kind, probe.flips) for probe in probes] == [(ProbeKind.RESHUFFLED, None)] * len(rows)
    generator = torch.Generator().manual_seed(5)
    orders = [torch.randperm(len(inputs), generator=generator) for _ in range(3)]
    for row, probe in zip(rows, probes, strict=True):
        losses = np.empty((3, len(inputs)))
        with torch.no_grad(), use_row_in_all_layers(row, populations):
            for turn, order in enumerate(orders):
                for pair in order.split(2):
                    losses[turn, pair.numpy()] = task.score(network(inputs[pair]), targets[pair])[0].numpy()
        assert probe.loss == pytest.approx(losses.mean(), rel=1e-10)
        assert probe.deviation == pytest.approx(np.sqrt(losses.var(axis=0, ddof=1).mean()), rel=1e-6, abs=1e-12)


def test_losses_that_compare_examples_are_those_of_the_split_at_every_size():
    """A loss of a retrieval depends on the mini-batch by its statistics only, so deterministic rows have one loss."""
    torch.manual_seed(0)
    spec, draw = TaskSpec(name="retrieval"), TASK_CASES["squared error"][1]
    mlp, inputs, training, _ = draw()
    network = nn.Sequential(mlp, nn.Linear(3, 8).double(), nn.Unflatten(1, (2, 4))).eval()
    populations = frozen_populations(network, training.split(TASK_SIZE))
    rows = row_specs(network, [PopulationEstimate.FROZEN])
    arguments = network, inputs, torch.arange(len(inputs)) // 2, rows, populations
    task = make_task(spec)
    losses = [ValidationProbe(*arguments, task=task).probe_at_batch_size(size) for size in (2, TASK_SIZE)]
    probes = ValidationProbe(*arguments, task=task).probe_batch_composition(2, reshuffles=2, seed=0)
    for small, large, reshuffled in zip(*losses, probes, strict=True):
        if small.key.configuration.is_deterministic:
            assert small.loss == pytest.approx(large.loss, rel=1e-10)
            assert reshuffled.deviation < 1e-10
        else:
            assert small.loss != pytest.approx(large.loss, rel=1e-4)
            assert reshuffled.deviation > 1e-4
        assert (reshuffled.kind, reshuffled.accuracy, reshuffled.flips) == (ProbeKind.RESHUFFLED, None, None)


def test_latency_is_measured_without_changing_the_network(trained):
    network, inputs, _, rows, populations = trained
    before = [layer.configured_state()[:2] for layer in populations]
    calls = []
    handle = network.register_forward_hook(lambda *_: calls.append(1))
    latencies = measure_latency_per_row(network, inputs[:SIZE], rows, populations, passes=5)
    handle.remove()
    assert len(calls) == len(rows) * (3 + 5)  # three passes to warm up
    assert [latency.row for latency in latencies] == rows
    for latency in latencies:
        assert 0 < latency.lower <= latency.seconds <= latency.upper < 10
        assert (latency.batch_size, latency.passes) == (SIZE, 5)
    assert [layer.configured_state()[:2] for layer in populations] == before
