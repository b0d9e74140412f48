"""The compiled kernel of the last two layers: sums of all configurations compared with torch, and where it is used."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree import traversal
from bln_search.evaluation.tree.graph.segments import split_at_norms
from bln_search.evaluation.tree.last_layers import LastLayers, find_last_layers
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.models import LeNet
from bln_search.norms import BLN, BN, LN
from bln_search.norms.row_batching.compiled.availability import use_torch_instead_of_kernels
from tests.evaluation.builders import frozen_populations
from tests.support.tiers import latin

pytestmark = pytest.mark.xdist_group("kernels")

with_kernels = pytest.mark.usefixtures("calls")


@pytest.fixture
def calls(monkeypatch):
    """Results of the kernel, None where it is not applicable. The kernel is used for any number of examples."""
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    monkeypatch.setattr(traversal, "FEWEST_SCORES", 1)
    results = []
    original = LastLayers.try_sum_scores

    def record_result(*args):
        results.append(original(*args))
        return results[-1]

    monkeypatch.setattr(LastLayers, "try_sum_scores", record_result)
    return results


def make_network(units=(9, 7), classes=5, norm=BLN, last=None, activation=nn.Tanh, **options):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, units[0]),
        nn.Tanh(),
        norm(units[0], **options),
        nn.Linear(units[0], units[1]),
        activation(),
        norm(units[1], **options),
        last or nn.Linear(units[1], classes),
    ).eval()


def make_evaluator(network, size=10, n=None, classes=5, dtype=torch.float32, shape=(6,)):
    network = network.to(dtype)
    generator = torch.Generator().manual_seed(1)
    n = n or 3 * size
    inputs = torch.randn(n, *shape, dtype=dtype, generator=generator)
    targets = torch.randint(0, classes, (n,), generator=generator)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, dtype=dtype, generator=generator))
    batches = list(iter_mini_batches_with_fillers(inputs, targets, size))
    return TreePerLayerEvaluator(network, batches, frozen_populations(network, [x for x, _ in batches]))


def assert_kernel_equals_torch(evaluator):
    found = evaluator.sum_scores_of_all_configurations()
    with use_torch_instead_of_kernels():
        expected = evaluator.sum_scores_of_all_configurations()
    np.testing.assert_array_equal(found.correct, expected.correct)
    losses, expected_losses = found.mean_loss_per_configuration(), expected.mean_loss_per_configuration()
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=1e-6)
    assert losses.argmin() == expected_losses.argmin()


SHAPES = [(10, (9, 7), 5), (17, (3, 20), 2), (32, (5, 6), 10), (41, (4, 33), 11), (9, (2, 1), 16), (33, (5, 6), 17)]


@pytest.mark.parametrize(("shape", "semantics"), latin(SHAPES, ["paper", "reference"]), ids=str)
def test_scores_of_all_configurations_equal_those_of_torch(calls, shape, semantics):
    size, units, classes = shape
    activation = nn.Tanh if size % 2 else nn.ReLU
    network = make_network(units, classes, activation=activation, semantics=semantics, batch_size=size)
    assert_kernel_equals_torch(make_evaluator(network, size, classes=classes))
    assert calls
    assert None not in calls


@pytest.mark.slow
@pytest.mark.parametrize("semantics", ["paper", "reference"])
@pytest.mark.parametrize("threads", [1, 2])
def test_all_configurations_of_a_lenet_equal_those_of_torch(calls, semantics, threads):
    torch.manual_seed(0)
    network = LeNet((1, 16, 16), 10, partial(BLN, semantics=semantics, batch_size=25)).eval()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    assert_kernel_equals_torch(make_evaluator(network, 25, 50, 10, shape=(1, 16, 16)))
    torch.set_num_threads(before)
    assert None not in calls


@with_kernels
def test_folds_are_summed_separately():
    evaluator = make_evaluator(make_network())
    folded = TreePerLayerEvaluator(evaluator.network, evaluator.batches, evaluator.populations, folds=[0, 1, 0])
    sums = folded.sum_scores_of_all_configurations()
    np.testing.assert_allclose(sums.losses.sum(0), evaluator.sum_scores_of_all_configurations().losses[0], rtol=1e-6)
    assert sums.examples.tolist() == [20, 10]


@pytest.mark.parametrize(
    ("network", "options"),
    [
        (make_network(), {"dtype": torch.float64}),
        (make_network(), {"size": 8}),
        (make_network(norm=BN), {}),
        (make_network(norm=LN), {}),
        (make_network(), {"n": 25}),
        (make_network(last=nn.Sequential(nn.Linear(7, 5), nn.Tanh())), {}),
        (make_network(activation=nn.GELU), {}),
    ],
    ids=["double", "small mini-batch", "bn", "ln", "fillers", "another end", "gelu"],
)
def test_other_networks_and_data_are_computed_by_torch(calls, network, options):
    assert_kernel_equals_torch(make_evaluator(network, **options))
    filled = [result for result in calls if result is not None]
    assert len(filled) == (options.get("n") == 25)  # the group without fillers


def assert_every_answer_is(evaluator, answer, calls):
    assert_kernel_equals_torch(evaluator)
    assert None not in calls
    targets = torch.cat([targets for _, targets in evaluator.batches])
    assert (evaluator.sum_scores_of_all_configurations().correct == int((targets == answer).sum())).all()


def test_of_equal_classes_the_first_is_the_answer(calls):
    network = make_network()
    evaluator = make_evaluator(network)
    with torch.no_grad():
        network[-1].weight[:2], network[-1].bias[:2] = 0.0, 9.0  # two equal classes, the most probable
    assert_every_answer_is(evaluator, 0, calls)


def test_of_nearly_equal_classes_the_larger_is_the_answer(calls):
    network = make_network()
    evaluator = make_evaluator(network)
    with torch.no_grad():
        network[-1].weight[:2], network[-1].bias[:2] = 0.0, torch.tensor([0.0, 1e-9])
        network[-1].weight[2:], network[-1].bias[2:] = 0.0, -9.0
    assert_every_answer_is(evaluator, 1, calls)


def test_losses_that_overflow_are_computed_by_torch(calls):
    network = make_network()
    evaluator = make_evaluator(network)
    with torch.no_grad():
        network[-1].weight.mul_(1e4)
    found = evaluator.sum_scores_of_all_configurations()
    with use_torch_instead_of_kernels():
        expected = evaluator.sum_scores_of_all_configurations()
    np.testing.assert_array_equal(found.losses, expected.losses)
    assert calls
    assert set(calls) == {None}


def test_few_scores_are_computed_by_torch(calls, monkeypatch):
    monkeypatch.setattr(traversal, "FEWEST_SCORES", 256 * 30 + 1)
    make_evaluator(make_network()).sum_scores_of_all_configurations()
    assert calls == []


def test_scores_of_examples_are_computed_by_torch(calls):
    evaluator = make_evaluator(make_network())
    evaluator.evaluate_per_example(np.zeros((1, 2), np.uint8))
    evaluator.score_sums_by_batch(np.zeros((1, 2), np.uint8), [0])
    assert calls == []


def test_last_layers_of_a_lenet_are_found():
    network = LeNet((1, 12, 12), 10, partial(BLN, batch_size=10)).eval()
    last = find_last_layers(split_at_norms(network))
    assert last is not None
    assert (last.norm, last.last_linear) == (network.classifier[3], network.classifier[7])


class DoubledLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


def test_changed_modules_are_not_last_layers():
    hooked = make_network()
    hooked[3].register_forward_hook(lambda _module, _inputs, output: output * 2)
    for network in (hooked, make_network(last=DoubledLinear(7, 5))):
        assert find_last_layers(split_at_norms(network)) is None
