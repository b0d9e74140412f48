"""Rows keep their precision far from zero, and ill-conditioned rows are evaluated in double precision."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.enums import Correction, PopulationEstimate
from bln_search.norms import BN, BRN, MBN
from bln_search.norms.moment_collection import use_new_moment_accumulators
from tests.api.small_network import X, converted, cut, losses


@pytest.mark.parametrize(("mean", "deviation"), [(0, 1), (1e6, 1e-2), (1e8, 1), (1e8, 1e-2)])
def test_variances_do_not_cancel_far_from_zero(mean, deviation):
    torch.manual_seed(0)
    bn, mbn, brn = BN(1).double(), MBN(1, memory_size=3).double(), BRN(1, momentum=0.5).double()
    means, variances = [], []
    with use_new_moment_accumulators([bn]) as collected:
        for _ in range(4):
            x = torch.randn(8, 1, dtype=torch.float64) * deviation + mean
            for layer in (bn, mbn, brn):
                layer(x)
            means.append(x.mean())
            variances.append(x.var(unbiased=False))
    centred_means = torch.stack(means) - mean  # exact: the same constant is subtracted from every mean
    stacked_variances = torch.stack(variances)

    def total(weights):
        weights = torch.tensor(weights, dtype=torch.float64) / sum(weights)
        variance_between = (weights * (centred_means - (weights * centred_means).sum()).square()).sum()
        return float(((weights * stacked_variances).sum() + variance_between + 1e-4).sqrt())

    moments = collected[bn].averaged_moments(has_batch_statistics=True, has_feature_statistics=False)
    population = bn.compute_population(moments, Correction.TOTAL).batch.deviation
    memory = mbn.compute_population(
        mbn.moments_by_estimate_from_history()[PopulationEstimate.MEMORY], Correction.TOTAL
    ).batch.deviation
    moving = brn.compute_population(
        brn.moments_by_estimate_from_history()[PopulationEstimate.MOVING], Correction.TOTAL
    ).batch.deviation
    assert population.item() == pytest.approx(total([1, 1, 1, 1]), rel=1e-6)
    assert memory.item() == pytest.approx(total([0, 0.81, 0.9, 1]), rel=1e-6)
    assert moving.item() == pytest.approx(total([0.125, 0.25, 0.5, 1]), rel=1e-6)


class Deep(nn.Module):
    """Divides by a mini-batch deviation next to zero again and again: single precision cannot follow."""

    def __init__(self):
        super().__init__()
        layers = []
        for _ in range(6):
            layers += [nn.Linear(7, 7), nn.BatchNorm1d(7, eps=1e-12)]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(7, 4)

    def forward(self, x):
        return self.head(self.layers(x))


@pytest.mark.parametrize("one_pass", [True, False])
def test_ill_conditioned_rows_are_evaluated_in_double_precision(one_pass):
    """Mini-batches of almost one example."""
    torch.manual_seed(3)
    network = bln_search.convert(Deep().eval(), method="same")
    x = X[:1] + 1e-4 * X
    with pytest.warns(UserWarning, match="ill-conditioned"):
        ranked = bln_search.evaluate_configurations(network, cut(0, 20), cut(20, 60, x), one_pass=one_pass)
    double = [(inputs.double(), targets) for inputs, targets in cut(20, 60, x)]
    for row in ranked:
        precise = bln_search.apply_configuration(copy.deepcopy(network).double(), row)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            plain = torch.cat([F.cross_entropy(precise(inputs), y, reduction="none") for inputs, y in double])
        assert losses(ranked)[str(row)] == pytest.approx(plain.mean().item(), rel=1e-3)


class Dropout(nn.Sequential):
    def forward(self, x):
        return super().forward(F.dropout(x, 0.3, training=True))


class Autocast(nn.Sequential):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x).float()


@pytest.mark.parametrize(("network", "one_pass"), [(Dropout, False), (Autocast, True), (Autocast, False)])
def test_well_conditioned_rows_are_not_called_ill_conditioned(network, one_pass):
    layers = nn.Linear(7, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4)
    ranked = bln_search.evaluate_configurations(converted(network(*layers)), cut(0, 20), cut(20, 60), one_pass=one_pass)
    assert len(ranked) == 16
