"""Drift of mini-batch statistics against NumPy, value by value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import Method
from bln_search.core.words import PopulationEstimate
from bln_search.evaluation import gather_frozen
from bln_search.norms import make_norm
from bln_search.norms.drift import drifts


def gathered(method, batches):
    network = nn.Sequential(make_norm(method, 5, batch_size=7)).double()
    return gather_frozen(network, batches)


@pytest.fixture
def batches():
    torch.manual_seed(0)
    return [torch.randn(7, 5, dtype=torch.float64) * (1 + number) + number for number in range(4)]


def test_spread_is_numpys(batches):
    found = {one.statistic: one for one in drifts({PopulationEstimate.FROZEN: gathered(Method.BLN, batches)})}
    data = np.stack([batch.numpy() for batch in batches])
    for axis, mean, deviation in ((1, "E_B", "Std_B"), (2, "E_F", "Std_F")):
        scale = np.sqrt(data.var(axis).mean())
        means, deviations = data.mean(axis), data.std(axis)
        assert found[mean].spread == pytest.approx(np.sqrt(means.var(0).mean()) / scale, rel=1e-6)
        assert found[deviation].spread == pytest.approx(np.sqrt(deviations.var(0).mean()) / scale, rel=1e-2)
    assert all(one.shift == 0 for one in found.values())


def test_shift_is_the_distance_to_the_frozen_estimate(batches):
    still, moved = gathered(Method.BN, batches), gathered(Method.BN, [batch + 2 for batch in batches])
    found = drifts({PopulationEstimate.FROZEN: still, PopulationEstimate.EPOCH: moved})
    scale = np.sqrt(np.stack([batch.numpy() for batch in batches]).var(1).mean())
    shifts = {one.statistic: one.shift for one in found if one.estimate == "epoch"}
    assert shifts == {"E_B": pytest.approx(2 / scale), "Std_B": pytest.approx(0, abs=1e-9)}


def test_without_a_frozen_estimate_there_is_no_shift(batches):
    assert [one.shift for one in drifts({PopulationEstimate.EPOCH: gathered(Method.LN, batches)})] == [None, None]


def test_what_is_not_a_number_is_none(batches):
    broken = gathered(Method.BN, [batches[0] * float("nan"), batches[1]])
    assert [one.spread for one in drifts({PopulationEstimate.FROZEN: broken})] == [None, None]
