"""What `convert` leaves, or would spoil, it says."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bln_search import convert
from bln_search.core.errors import ModelError


def trained():
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    network(torch.randn(16, 4))
    return network.eval()


def test_a_trained_network_is_not_changed_into_another_method_in_silence():
    with pytest.warns(UserWarning, match='trained with BatchNorm, and bln scales otherwise.*method="same"'):
        convert(trained(), batch_size=16)


@pytest.mark.filterwarnings("error")
def test_one_that_was_not_trained_or_stays_the_same_is_no_news():
    convert(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)), batch_size=16)
    network = trained()
    inputs = torch.randn(5, 4)
    before = network(inputs)
    torch.testing.assert_close(convert(copy.deepcopy(network), method="same")(inputs), before)


def test_layers_that_stay_what_they_are_are_named():
    with pytest.warns(UserWarning, match="^GroupNorm, InstanceNorm1d layers of this network are not replaced"):
        convert(nn.Sequential(nn.GroupNorm(2, 8), nn.InstanceNorm1d(8), nn.BatchNorm1d(8)), batch_size=16)


def test_a_network_without_any_names_those_it_has():
    with pytest.raises(ModelError, match="to convert; it has GroupNorm, which is not replaced: put BLN"):
        convert(nn.Sequential(nn.GroupNorm(2, 8)))
