"""Estimates of the layers of a network, and the row of the network before its conversion."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bln_search import convert
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.norms import BLN, BN, BRN, LN
from bln_search.norms.network.layers import (
    find_row_of_original_outputs,
    get_norms_by_name,
    moments_by_estimate_from_training_history,
)
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.norms.statistics import LayerPopulation, PopulationPair

MOVING = PopulationEstimate.MOVING


def trained(*norms):
    """A network of these layers after two training steps."""
    torch.manual_seed(0)
    network = nn.Sequential(*norms)
    for _ in range(2):
        network(torch.randn(8, 4) * 2 + 1)
    return network.eval()


def converted(*norms):
    return convert(trained(*norms), method="same")


def row_of(network, reached=None):
    layers = get_norms_by_name(network)
    return find_row_of_original_outputs(layers, set(layers) if reached is None else reached)


def test_layers_without_history_do_not_exclude_an_estimate():
    network = converted(nn.BatchNorm1d(4), nn.LayerNorm(4), nn.BatchNorm1d(4, track_running_stats=False))
    assert {
        estimate: set(moments)
        for estimate, moments in moments_by_estimate_from_training_history(get_norms_by_name(network)).items()
    } == {MOVING: {"0"}}


def test_layers_that_require_an_estimate_exclude_it_where_they_lack_it():
    network = trained(BRN(4), BRN(4))
    network.append(BRN(4))
    layers = get_norms_by_name(network)
    assert moments_by_estimate_from_training_history(layers) == {}
    assert {
        estimate: set(moments)
        for estimate, moments in moments_by_estimate_from_training_history(layers, {"0", "1"}).items()
    } == {MOVING: {"0", "1"}}


@pytest.mark.parametrize(
    ("norms", "row"),
    [
        ([nn.BatchNorm1d(4)], InferenceRow(InferenceConfiguration("TT--"), MOVING)),
        ([nn.BatchNorm1d(4), nn.LayerNorm(4)], InferenceRow(InferenceConfiguration("TTFF"), MOVING)),
        ([nn.LayerNorm(4)], InferenceRow(InferenceConfiguration("--FF"), None)),
        (
            [nn.BatchNorm1d(4, track_running_stats=False)],
            InferenceRow(InferenceConfiguration("FF--"), None),
        ),
    ],
)
def test_a_converted_network_has_the_row_of_the_original(norms, row):
    network = converted(*(copy.deepcopy(norm) for norm in norms))
    assert row_of(network) == row
    network(torch.randn(3, 4))
    assert row_of(network) == row
    assert row_of(network, reached=set()) is None


@pytest.mark.parametrize("layer", [LN, BN, BLN])
def test_a_network_that_was_not_converted_has_no_such_row(layer):
    assert row_of(nn.Sequential(layer(4)).eval()) is None


def test_a_converted_network_loses_the_row_when_it_changes():
    network = converted(nn.BatchNorm1d(4), nn.LayerNorm(4))
    network[0].configure(InferenceConfiguration("FF--"))
    assert row_of(network) is None
    network = converted(nn.BatchNorm1d(4), nn.LayerNorm(4))
    pair = PopulationPair(torch.zeros(1, 4), torch.full((1, 4), 2.0))
    network[0].configure(InferenceConfiguration("TT--"), LayerPopulation(pair, None))
    assert row_of(network) is None


def test_a_converted_network_keeps_the_row_in_training_and_under_its_running_statistics():
    network = converted(nn.BatchNorm1d(4), nn.LayerNorm(4))
    network.train()(torch.randn(8, 4))
    row = InferenceRow(InferenceConfiguration("TTFF"), MOVING)
    assert row_of(network.eval()) == row
    deviation = torch.sqrt(network[0].running_var + 1e-5)
    pair = PopulationPair(network[0].running_mean[None].clone(), deviation[None])
    network[0].configure(InferenceConfiguration("TT--"), LayerPopulation(pair, None))
    assert row_of(network) == row
