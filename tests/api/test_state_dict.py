"""A state dict has everything that an applied configuration needs."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.norms import BN
from bln_search.norms.moment_collection import (
    flatten_moments_to_tensors,
    restore_moments_from_tensors,
    use_new_moment_accumulators,
)
from tests.api.small_network import X, Y, converted, cut, losses


class TestStateDict:
    def trained(self, seed, scale):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
        for _ in range(30):
            network(X[:20] * scale)
        return network.eval()

    @pytest.mark.parametrize("other_state", [True, False])
    def test_running_statistics_are_those_of_the_state(self, other_state):
        first = self.trained(1, 1.0)
        second = self.trained(2, 5.0) if other_state else nn.Sequential(*copy.deepcopy(list(first)))
        converted_first, loaded = (
            bln_search.convert(copy.deepcopy(network), method="same") for network in (first, second)
        )
        loaded.load_state_dict(converted_first.state_dict())
        expected = F.cross_entropy(first(X[20:]), Y[20:]).item()
        for network in (converted_first, loaded):
            actual = losses(bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60)))
            assert actual["TT-- (moving)"] == pytest.approx(expected, rel=1e-5)

    def test_a_network_trained_further_warns_through_its_state_too(self):
        network = converted()
        ranked = bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60))
        bln_search.apply_configuration(network, next(row for row in ranked if str(row.configuration) == "TTTT"))
        network.train()(X[:5] * 100)
        reloaded = converted()
        reloaded.load_state_dict(network.state_dict())
        with pytest.warns(UserWarning, match="before the network was trained further"):
            reloaded.eval()(X[:5])

    def test_a_state_of_an_earlier_format_is_read(self):
        network = converted()
        state = network.state_dict()
        for name, value in state.items():
            if name.endswith("_extra_state"):
                assert value[0] == 2
                state[name] = torch.cat([value[1:6], value[7:]])
        reloaded = converted()
        reloaded.load_state_dict(state)
        assert [reloaded[1].batch_size, str(reloaded[1].configuration)] == [5, "FFFF"]
        assert not reloaded[1].population_outdated


def test_moments_of_earlier_checkpoints_are_read():
    bn = BN(7).double()
    with use_new_moment_accumulators([bn]) as collected:
        for x, _ in cut(0, 20):
            bn(x.double())
    moments = collected[bn].averaged_moments(has_batch_statistics=True, has_feature_statistics=False)
    tensors = flatten_moments_to_tensors({"n": moments})
    variance = tensors.pop("n|batch|variance_of_mean")
    tensors["n|batch|mean_square"] = variance + tensors["n|batch|mean"].square()
    torch.testing.assert_close(restore_moments_from_tensors(tensors)["n"].batch.variance_of_mean, variance)
