"""Losses are those of the network, and none is computed twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bench.support.loss_table import TableLossSource
from bln_search.evaluation.tree.trie import digits_of_all_configurations
from bln_search.search.layers.loss_source import CachedNetworkLossSource
from tests.evaluation.tree.builders import draw_digits, make_evaluator


class Counting:
    """An evaluator that writes down what it is requests for."""

    def __init__(self, tree):
        self.tree, self.requests = tree, []
        self.space, self.example_counts_by_batch = tree.space, tree.example_counts_by_batch

    def score_sums_by_batch(self, digits, batches):
        self.requests += [(row.tobytes(), batch) for row in digits for batch in batches]
        return self.tree.score_sums_by_batch(digits, batches)


@pytest.fixture
def counting():
    """Four mini-batches of which the last one judges two examples, in two folds."""
    return Counting(make_evaluator("mlp", n=20, folds=[0, 1, 0, 1]))


def test_losses_equal_the_evaluators_in_any_order(counting):
    source, digits = CachedNetworkLossSource(counting), draw_digits(counting.space, 5).astype(np.uint8)
    expected, _ = counting.tree.score_sums_by_batch(digits, range(4))
    for batches in ([2, 0], [3, 1, 2], [0]):
        np.testing.assert_allclose(source.sum_losses(digits, batches), expected[:, batches], rtol=1e-12)
    np.testing.assert_allclose(source.sum_losses(digits[::-1], [1])[:, 0], expected[::-1, 1], rtol=1e-12)


def test_padded_mini_batch_counts_its_own_examples(counting):
    source = CachedNetworkLossSource(counting)
    assert source.examples.tolist() == [6, 6, 6, 2]
    digits = draw_digits(counting.space, 1).astype(np.uint8)
    (outcome,) = counting.tree.evaluate_per_example(digits)
    assert source.sum_losses(digits, [3])[0, 0] == pytest.approx(outcome.losses[18:].sum(), rel=1e-12)


def test_losses_are_cached(counting):
    source, digits = CachedNetworkLossSource(counting), draw_digits(counting.space, 6).astype(np.uint8)
    source.sum_losses(digits[:3], [0, 1])
    source.sum_losses(digits, [1, 2])
    source.sum_losses(np.concatenate([digits, digits]), [0, 1, 2])
    assert len(counting.requests) == len(set(counting.requests)) == 6 * 3
    source.sum_losses(digits, [2, 0])
    assert len(counting.requests) == 18


def test_evaluations_count_examples(counting):
    source, digits = CachedNetworkLossSource(counting), draw_digits(counting.space, 2).astype(np.uint8)
    source.sum_losses(digits, [0, 3])
    assert source.cost_in_full_evaluations == pytest.approx(2 * 8 / 20)
    source.sum_losses(digits, [0, 1, 2, 3])
    assert source.cost_in_full_evaluations == pytest.approx(2)


def test_complete_sums_cover_all_mini_batches(counting):
    source, digits = CachedNetworkLossSource(counting), draw_digits(counting.space, 4).astype(np.uint8)
    source.sum_losses(digits[:1], [0, 1])
    source.sum_losses(digits[1:], [0, 1])
    source.sum_losses(digits[1:], [2, 3])
    rows, losses, correct = source.sums_of_complete_configurations()
    assert sorted(map(bytes, rows)) == sorted(map(bytes, digits[1:]))
    for row, loss, right in zip(rows, losses, correct, strict=True):
        (outcome,) = counting.tree.evaluate_per_example(row[None])
        assert loss.sum() == pytest.approx(outcome.losses.sum(), rel=1e-12)
        assert right.sum() == outcome.correct.sum()


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_nan_losses_are_infinite(weight):
    tree = make_evaluator("mlp")
    with torch.no_grad():
        tree.network.layers[-1].weight[:, 0] = weight
    source, digits = CachedNetworkLossSource(tree), np.zeros((2, 2), np.uint8)
    assert np.isposinf(source.sum_losses(digits, [0, 1, 2, 3])).all()
    assert np.isposinf(source.sums_of_complete_configurations()[1]).all()


def test_loss_table_equals_the_network():
    tree = make_evaluator("mlp", n=20)
    every = digits_of_all_configurations(tree.space)
    table = TableLossSource(
        tree.space, tree.score_sums_by_batch(every, range(4))[0].T, np.array(tree.example_counts_by_batch)
    )
    digits = draw_digits(tree.space, 20).astype(np.uint8)
    for batches in ([0, 1, 2, 3], [3, 1]):
        expected = CachedNetworkLossSource(tree).sum_losses(digits, batches)
        np.testing.assert_allclose(table.sum_losses(digits, batches), expected, rtol=1e-12)
