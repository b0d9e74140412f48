"""Loaders, targets and scores of any usual form give the losses of the plain loop, or one error."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import bln_search
from bln_search.core.errors import ModelError
from tests.api.small_network import X, Y, converted, cut, losses


class Refilled:
    """A loader that fills one buffer over and over."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        x, y = (torch.empty_like(part) for part in self.batches[0])
        for inputs, targets in self.batches:
            yield x.copy_(inputs), y.copy_(targets)


@pytest.mark.parametrize("kind", ["inputs alone", "one-tuples", "refilled"])
def test_the_population_needs_no_targets(kind):
    train = cut(0, 20)
    loader = {
        "inputs alone": [x for x, _ in train],
        "one-tuples": [(x,) for x, _ in train],
        "refilled": Refilled(train),
    }[kind]
    expected = bln_search.evaluate_configurations(converted(), train, cut(20, 60))
    assert losses(bln_search.evaluate_configurations(converted(), loader, cut(20, 60))) == losses(expected)


@pytest.mark.parametrize(
    "score",
    [
        lambda outputs, targets: ((outputs.argmax(1) != targets).long(), outputs.argmax(1) == targets),
        lambda outputs, targets: (outputs.argmax(1) != targets, outputs.argmax(1) == targets),
    ],
    ids=["whole numbers", "truth values"],
)
def test_losses_may_be_integers_or_booleans(score):
    one_pass_losses, plain_losses = (
        losses(bln_search.evaluate_configurations(converted(), cut(0, 20), cut(20, 60), score=score, one_pass=one_pass))
        for one_pass in (True, False)
    )
    assert one_pass_losses == plain_losses


def test_output_without_a_batch_axis_is_one_clear_error():
    class Squeezes(nn.Sequential):
        def forward(self, x):
            return super().forward(x).squeeze()

    network = Squeezes(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    single_examples = [(X[index : index + 1], Y[index : index + 1]) for index in range(20, 30)]

    def score(outputs, targets):
        return outputs.reshape(-1).square(), targets == 0

    with pytest.raises(ModelError, match="first axis"):
        bln_search.evaluate_configurations(
            converted(network), cut(0, 20), single_examples, score=score, correction="total"
        )
