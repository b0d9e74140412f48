"""Drift of mini-batch statistics equals a NumPy computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method
from bln_search.evaluation import collect_moments_with_frozen_weights
from bln_search.norms import make_norm
from bln_search.norms.network.drift import compute_drifts
from bln_search.norms.network.layers import get_norms_by_name


def drifts_between(method, *sets, shape=(7, 5)):
    """Return the drifts of a network with one estimate from each set of mini-batches, the first one `frozen`."""
    network = nn.Sequential(make_norm(method, shape[1], batch_size=shape[0])).double()
    estimates = (PopulationEstimate.FROZEN, PopulationEstimate.EPOCH)
    moments = {
        estimate: collect_moments_with_frozen_weights(network, batches)
        for estimate, batches in zip(estimates, sets, strict=False)
    }
    return compute_drifts(moments, get_norms_by_name(network))


def draw_batches(shape=(7, 5), scale=1.0):
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=torch.float64) * scale * (1 + number) + number for number in range(4)]


@pytest.mark.parametrize("scale", [1.0, 0.01])
@pytest.mark.parametrize("shape", [(7, 5), (6, 5, 3, 3)])
def test_spread_equals_numpys(shape, scale):
    by_statistic = {
        drift.statistic: drift for drift in drifts_between(Method.BLN, draw_batches(shape, scale), shape=shape)
    }
    data = np.stack([batch.numpy() for batch in draw_batches(shape, scale)])
    epsilon = 1e-4
    positions = tuple(range(3, data.ndim))
    for axes, mean, deviation in (((1, *positions), "E_B", "Std_B"), ((2,), "E_F", "Std_F")):
        unit = np.sqrt(data.var(axes).mean())
        means, deviations = data.mean(axes), np.sqrt(data.var(axes) + epsilon)
        assert by_statistic[mean].spread == pytest.approx(np.sqrt(means.var(0).mean()) / unit, rel=1e-6)
        expected = np.sqrt(deviations.var(0).mean()) / unit
        assert by_statistic[deviation].spread == pytest.approx(expected, rel=1e-6)
    assert all(drift.shift == 0 for drift in by_statistic.values())


def test_shift_is_the_distance_to_the_frozen_estimate():
    layer_drifts = drifts_between(Method.BN, draw_batches(), [batch + 2 for batch in draw_batches()])
    unit = np.sqrt(np.stack([batch.numpy() for batch in draw_batches()]).var(1).mean())
    shifts = {drift.statistic: drift.shift for drift in layer_drifts if drift.estimate == "epoch"}
    assert shifts == {"E_B": pytest.approx(2 / unit), "Std_B": pytest.approx(0, abs=1e-9)}


def test_without_a_frozen_estimate_there_is_no_shift():
    network = nn.Sequential(make_norm(Method.LN, 5, batch_size=7)).double()
    moments = {PopulationEstimate.EPOCH: collect_moments_with_frozen_weights(network, draw_batches())}
    assert [drift.shift for drift in compute_drifts(moments, get_norms_by_name(network))] == [None, None]


def test_drift_that_is_not_a_number_is_none():
    batches = [draw_batches()[0] * float("nan"), draw_batches()[1]]
    assert [drift.spread for drift in drifts_between(Method.BN, batches)] == [None, None]


def test_a_layer_with_constant_inputs_has_no_drift():
    """An example is the first time step of a recurrent layer, where every h is zero: only rounding varies."""
    network = nn.Sequential(make_norm(Method.BN, 5, batch_size=7))
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, [torch.zeros(7, 5)] * 3)}
    assert [(drift.spread, drift.shift) for drift in compute_drifts(moments, get_norms_by_name(network))] == [
        (None, None)
    ] * 2


def test_layers_that_share_gamma_have_one_drift():
    class Steps(nn.Module):
        def __init__(self):
            super().__init__()
            self.of_step = nn.ModuleList(make_norm(Method.BN, 5, batch_size=7).double() for _ in range(3))
            for layer in self.of_step:
                layer.weight = self.of_step[0].weight

        def forward(self, x):
            return self.of_step[0](x * 0) + self.of_step[1](x) + self.of_step[2](3 * x + 1)

    separate = [
        drifts_between(Method.BN, [scale * batch + shift for batch in draw_batches()])
        for scale, shift in ((1, 0), (3, 1))
    ]
    network = Steps()
    moments = {PopulationEstimate.FROZEN: collect_moments_with_frozen_weights(network, draw_batches())}
    shared = compute_drifts(moments, get_norms_by_name(network))
    assert {drift.layer for drift in shared} == {"of_step"}
    for index, drift in enumerate(shared):
        expected = np.sqrt(np.mean([layer_drifts[index].spread ** 2 for layer_drifts in separate]))
        assert drift.spread == pytest.approx(expected, rel=1e-6)
