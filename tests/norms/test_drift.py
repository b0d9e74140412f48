"""Drift of mini-batch statistics against NumPy, value by value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.configuration import Method
from bln_search.core.enums import PopulationEstimate
from bln_search.evaluation import collect_frozen_moments
from bln_search.norms import make_norm
from bln_search.norms.drift import drifts
from bln_search.norms.network_layers import find_norms


def found(method, *sets, shape=(7, 5)):
    """What drifts() says of a network that saw each set of mini-batches; the first is the frozen one."""
    network = nn.Sequential(make_norm(method, shape[1], batch_size=shape[0])).double()
    estimates = (PopulationEstimate.FROZEN, PopulationEstimate.EPOCH)
    gathered = {one: collect_frozen_moments(network, batches) for one, batches in zip(estimates, sets, strict=False)}
    return drifts(gathered, find_norms(network))


def made(shape=(7, 5), scale=1.0):
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=torch.float64) * scale * (1 + number) + number for number in range(4)]


@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("shape", [(7, 5), (6, 5, 3, 3)])
def test_spread_equals_numpys(shape, scale):
    told = {one.statistic: one for one in found(Method.BLN, made(shape, scale), shape=shape)}
    data = np.stack([batch.numpy() for batch in made(shape, scale)])
    epsilon = 1e-4
    positions = tuple(range(3, data.ndim))
    for axes, mean, deviation in (((1, *positions), "E_B", "Std_B"), ((2,), "E_F", "Std_F")):
        size = np.sqrt(data.var(axes).mean())
        means, deviations = data.mean(axes), np.sqrt(data.var(axes) + epsilon)
        assert told[mean].spread == pytest.approx(np.sqrt(means.var(0).mean()) / size, rel=1e-6)
        assert told[deviation].spread == pytest.approx(np.sqrt(deviations.var(0).mean()) / size, rel=1e-6)
    assert all(one.shift == 0 for one in told.values())


def test_shift_is_the_distance_to_the_frozen_estimate():
    told = found(Method.BN, made(), [batch + 2 for batch in made()])
    size = np.sqrt(np.stack([batch.numpy() for batch in made()]).var(1).mean())
    shifts = {one.statistic: one.shift for one in told if one.estimate == "epoch"}
    assert shifts == {"E_B": pytest.approx(2 / size), "Std_B": pytest.approx(0, abs=1e-9)}


def test_without_a_frozen_estimate_there_is_no_shift():
    network = nn.Sequential(make_norm(Method.LN, 5, batch_size=7)).double()
    gathered = {PopulationEstimate.EPOCH: collect_frozen_moments(network, made())}
    assert [one.shift for one in drifts(gathered, find_norms(network))] == [None, None]


def test_drift_that_is_not_a_number_is_none():
    broken = [made()[0] * float("nan"), made()[1]]
    assert [one.spread for one in found(Method.BN, broken)] == [None, None]


def test_a_layer_with_constant_inputs_has_no_drift():
    """As at the first time step of a recurrent layer, where every h is zero: what is left there is rounding."""
    network = nn.Sequential(make_norm(Method.BN, 5, batch_size=7))
    gathered = {PopulationEstimate.FROZEN: collect_frozen_moments(network, [torch.zeros(7, 5)] * 3)}
    assert [(one.spread, one.shift) for one in drifts(gathered, find_norms(network))] == [(None, None)] * 2


def test_layers_that_share_gamma_have_one_drift():
    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.of_step = nn.ModuleList(make_norm(Method.BN, 5, batch_size=7).double() for _ in range(3))
            for layer in self.of_step:
                layer.weight = self.of_step[0].weight

        def forward(self, x):
            return self.of_step[0](x * 0) + self.of_step[1](x) + self.of_step[2](3 * x + 1)

    apart = [found(Method.BN, [scale * batch + shift for batch in made()]) for scale, shift in ((1, 0), (3, 1))]
    network = Steps()
    together = drifts({PopulationEstimate.FROZEN: collect_frozen_moments(network, made())}, find_norms(network))
    assert {one.layer for one in together} == {"of_step"}
    for place, one in enumerate(together):
        expected = np.sqrt(np.mean([told[place].spread ** 2 for told in apart]))
        assert one.spread == pytest.approx(expected, rel=1e-6)
