"""Networks in which only a part was converted."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import bln_search
from bln_search.norms.network.layers import evaluation_mode
from tests.api.small_network import cut, losses

TRAIN = [(x.double(), y) for x, y in cut(0, 30)]
VALIDATION = [(x.double(), y) for x, y in cut(30, 50)]


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.early = nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 6), nn.GroupNorm(2, 6))
        self.late = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4))

    def forward(self, x):
        return self.late(self.early(x))


@pytest.fixture
def network():
    """A trained network whose last part is converted, in double precision."""
    torch.manual_seed(3)
    model = TwoParts().double()
    with torch.no_grad():
        for x, _ in TRAIN:
            model(x)
    bln_search.convert(model.eval().late, method="same")
    return model


def plain_loss(model):
    with torch.no_grad(), evaluation_mode(model):
        parts = [nn.functional.cross_entropy(model(x), y, reduction="none") for x, y in VALIDATION]
    return torch.cat(parts).mean().item()


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
def test_every_row_of_a_converted_part_equals_a_plain_loop(network):
    running = network.early[1].running_mean.clone()
    ranked = bln_search.evaluate_configurations(network, TRAIN, VALIDATION)
    expected = {}
    for row in ranked:
        copied = copy.deepcopy(network)
        bln_search.apply_configuration(copied, row)
        expected[str(row)] = plain_loss(copied)
    assert len(expected) == 7
    assert losses(ranked) == pytest.approx(expected, rel=1e-12)
    assert torch.equal(network.early[1].running_mean, running)


@pytest.mark.filterwarnings("ignore::bln_search.BatchDependenceWarning")
def test_search_of_a_converted_part_equals_a_plain_loop(network):
    layered = bln_search.search_layers(network, TRAIN, VALIDATION)
    space = layered.record.space
    assert space.layers == ("late.1",)
    expected = []
    for index in range(space.num_configurations):
        copied = copy.deepcopy(network)
        bln_search.apply_configuration(
            copied, layered.with_populations(space.configuration_of_choice_digits(space.choice_digits_at_index(index)))
        )
        expected.append(plain_loss(copied))
    np.testing.assert_allclose(layered.record.sums.mean_loss_per_configuration, expected, rtol=1e-12)
