"""Per-layer losses of every task equal those of plain forward passes, one configuration at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.configuration_space import PerLayerEvaluatorOptions
from bln_search.evaluation.tree.tree_evaluator import TreePerLayerEvaluator
from bln_search.tasks import make_task
from tests.evaluation.builders import SIZE, frozen_populations
from tests.evaluation.task_networks import TASK_CASES, N
from tests.evaluation.tree.builders import TINY_LIMIT, assert_equal_to_plain_passes, draw_digits


@pytest.fixture(params=TASK_CASES)
def make_evaluator(request):
    """Return a function that makes an evaluator of the network of a task."""
    spec, draw = TASK_CASES[request.param]
    torch.manual_seed(0)
    network, inputs, training, targets = draw()
    populations = frozen_populations(network, training.split(SIZE))

    def make(folds=None, **options):
        batches = list(iter_mini_batches_with_fillers(inputs, targets, SIZE))
        options = PerLayerEvaluatorOptions(score=make_task(spec).score, **options)
        return TreePerLayerEvaluator(network, batches, populations, options, folds=folds)

    return make


@pytest.mark.parametrize("memory_limit", [TINY_LIMIT, pytest.param(10**8, marks=pytest.mark.slow)])
def test_losses_equal_plain_passes(make_evaluator, memory_limit):
    evaluator = make_evaluator(memory_limit=memory_limit)
    evaluator.check_against_plain_passes()
    digits = draw_digits(evaluator.space, 30)
    assert_equal_to_plain_passes(evaluator, digits)
    outcomes = evaluator.evaluate_per_example(digits)
    assert {row.losses.shape for row in outcomes} == {(N,)}
    assert len({round(float(row.losses.mean()), 9) for row in outcomes}) > 10


def test_the_enumeration_sums_the_losses_of_each_fold(make_evaluator):
    evaluator = make_evaluator(folds=[0, 1, 0])
    sums = evaluator.sum_scores_of_all_configurations()
    chosen = draw_digits(evaluator.space, 20)
    losses = np.stack([row.losses for row in evaluator.evaluate_per_example(chosen)])
    is_second = (np.arange(N) >= SIZE) & (np.arange(N) < 2 * SIZE)
    indices = [evaluator.space.index_of_choice_digits([int(digit) for digit in row]) for row in chosen]
    expected = np.stack([losses[:, ~is_second].sum(1), losses[:, is_second].sum(1)])
    np.testing.assert_allclose(sums.losses[:, indices], expected, rtol=1e-10)
    assert sums.examples.tolist() == [N - SIZE, SIZE]
