"""Evaluation mode, and back, calls what modules do themselves where their mode changes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bln_search.norms.network.layers import evaluation_mode
from tests.api.merging import MERGING


def make_network(kind, *, second_is_merged):
    torch.manual_seed(0)
    network = nn.Sequential(kind(6, 8), nn.Sequential(nn.Dropout(0.5), kind(8, 3)))
    if second_is_merged:
        network[1].eval()
    return network


def tensors_and_flags(network):
    tensors = {name: tensor.clone() for name, tensor in network.state_dict(keep_vars=True).items()}
    return tensors, [(module.training, getattr(module, "merged", None)) for module in network.modules()]


@pytest.mark.parametrize("kind", MERGING)
@pytest.mark.parametrize("second_is_merged", [False, True])
def test_modes_and_values_return_bit_for_bit(kind, second_is_merged):
    network = make_network(MERGING[kind], second_is_merged=second_is_merged)
    expected, flags = tensors_and_flags(network)
    outputs = copy.deepcopy(network).eval()(torch.ones(4, 6))
    for _ in range(3):
        with evaluation_mode(network), evaluation_mode(network):
            assert not any(module.training for module in network.modules())
            assert torch.equal(network(torch.ones(4, 6)), outputs)
        tensors, flags_after = tensors_and_flags(network)
        assert flags_after == flags
        assert all(torch.equal(tensors[name], expected[name]) for name in expected)


@pytest.mark.parametrize("kind", MERGING)
def test_what_is_written_in_the_context_stays(kind):
    network = make_network(MERGING[kind], second_is_merged=False)
    with evaluation_mode(network), torch.no_grad():
        network[0].bias.fill_(7.0)
    assert network[0].bias.eq(7).all()
