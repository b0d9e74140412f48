"""The search over batch-mates finds mini-batches that change the loss of an example."""

from __future__ import annotations

import torch
from torch import nn

import bln_search
from bln_search.ranking.network_check import Variant
from tests.api.check.networks import loaders


def dependence(network, validation=30):
    report = bln_search.check(network, *loaders(validation=validation), progress=False)
    return {found.variant: found for found in report.check.dependence}


def test_small_mini_batches_change_an_example_more(trained):
    small, large = (dependence(trained, size)[Variant.MINI_BATCH] for size in (4, 100))
    assert small.mean_change > large.mean_change > 0
    assert (small.examples, small.batch_size, large.batch_size) == (4, 4, 100)


def test_outputs_without_classes_have_no_changed_predictions(trained):
    class Regression(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = trained

        def forward(self, x):
            return self.network(x)[:, :1]

    inputs = torch.randn(60, 10)
    data = [(inputs[part], inputs[part, :1]) for part in torch.arange(60).split(20)]
    report = bln_search.check(Regression().eval(), data, data, score="mse", progress=False)
    assert report.check.dependence[0].changed_predictions is None
