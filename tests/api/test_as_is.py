"""The current configuration of a network is a row of its table, replaced only by a better one."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import bln_search
from bln_search.core.enums import Split
from tests.support.tiers import latin


def batches(seed, count=10, size=20, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(12, generator=torch.Generator().manual_seed(0))
    labelled_batches = []
    for _ in range(count):
        x = torch.randn(size, 12, generator=generator)
        labelled_batches.append((x * (1 + shift) + shift, (x @ weights > 0).long()))
    return labelled_batches


class TwoHeads(nn.Module):
    """The second head answers in training only."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(12, 16), norm, nn.Linear(16, 2)
        self.helper = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 2))

    def forward(self, x):
        y = self.norm(self.first(x)).relu()
        return self.head(y) + self.helper(y) if self.training else self.head(y)


NETWORKS = {
    "batch norm": lambda: nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)),
    "batch and layer norm": lambda: nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 2)
    ),
    "a head that evaluation does not reach": lambda: TwoHeads(nn.BatchNorm1d(16)),
    "layer norm": lambda: nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 2)),
    "one without running statistics": lambda: nn.Sequential(
        nn.Linear(12, 16),
        nn.BatchNorm1d(16),
        nn.Linear(16, 16),
        nn.BatchNorm1d(16, track_running_stats=False),
        nn.Linear(16, 2),
    ),
    "no running statistics": lambda: nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16, track_running_stats=False), nn.Linear(16, 2)
    ),
    "running statistics before any training": lambda: nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Linear(16, 2)
    ),
}


def trained(name, epochs=1):
    torch.manual_seed(0)
    network = NETWORKS[name]()
    if "before" in name:
        return network.eval()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for x, y in batches(1) * epochs:
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return network.eval()


@torch.no_grad()
def losses(network, validation):
    return torch.cat([F.cross_entropy(network(x), y, reduction="none") for x, y in validation]).numpy()


def evaluated(network, train, validation, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*reached the layer helper")
        return bln_search.evaluate_configurations(network, train, validation, **options)


@pytest.mark.parametrize(("name", "one_pass"), latin(NETWORKS, [True, False]))
def test_current_row_has_the_losses_of_the_network(name, one_pass):
    network, validation = trained(name), batches(2)
    expected = losses(network, validation)
    converted = bln_search.convert(copy.deepcopy(network), method="same")
    ranked = evaluated(converted, batches(1), validation, one_pass=one_pass)
    assert ranked.as_is is not None
    key = next(key for key in ranked.outcomes if (key.configuration, key.estimate) == _key(ranked.as_is))
    np.testing.assert_allclose(ranked.outcomes[key].losses, expected, rtol=1e-4, atol=1e-6)
    bln_search.apply_configuration(converted, next(row for row in ranked if str(row) != str(ranked.as_is)))
    bln_search.apply_configuration(converted, ranked.as_is)
    np.testing.assert_allclose(losses(converted.eval(), validation), expected, rtol=1e-4, atol=1e-6)


def _key(row):
    return row.configuration, row.row.estimate


def test_current_row_is_recommended_within_the_margin():
    network = bln_search.convert(trained("batch and layer norm", epochs=5), method="same")
    ranked = evaluated(network, batches(1), batches(4, count=3))
    assert str(ranked.as_is) == "TTFF (moving)"
    assert str(ranked.recommended) == str(ranked.as_is)
    assert ranked.recommendation.current.is_recommended
    assert ranked.as_is.row.rank > 1  # or the rule had nothing to do


def test_another_row_is_recommended_under_a_harmful_shift():
    network = bln_search.convert(trained("batch norm"), method="same")
    ranked = evaluated(network, batches(1), batches(2, count=30, shift=3.0))
    current = ranked.recommendation.current
    figures = {str(row): row.row.metrics[Split.VALIDATION].loss.mean for row in ranked}
    assert str(ranked.recommended) != str(ranked.as_is)
    above = current.above_best
    assert above.mean == pytest.approx(figures[str(ranked.as_is)] - min(figures.values()), rel=1e-4)
    assert 0 < above.low < above.mean < above.high


@pytest.mark.parametrize("change", ["other row", "not converted"])
def test_changed_network_has_no_current_row(change):
    name = "layer norm" if change == "not converted" else "batch norm"
    network = bln_search.convert(trained(name), method="bln" if change == "not converted" else "same")
    ranked = evaluated(network, batches(1), batches(2))
    if change == "other row":
        bln_search.apply_configuration(network, next(row for row in ranked if str(row) == "TT-- (frozen)"))
        ranked = evaluated(network, batches(1), batches(2))
    assert ranked.as_is is None
    assert ranked.recommendation.current is None
