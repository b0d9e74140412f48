"""The comparison of library networks with a plain loop, on networks that torch alone makes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.support.zoo import comparison as zoo_comparison
from bench.support.zoo.comparison import Prepared, Setting, compare_rows, compare_search, prepare
from bench.support.zoo.networks import NETWORKS
from bln_search.api.convert import convert
from tests.support.tiers import latin

OF_TORCH = [name for name, subject in NETWORKS.items() if subject.library == "torch"]


class Chaotic(nn.Module):
    """Doubles every difference fourteen times."""

    def forward(self, x):
        y = torch.tanh(x)
        for _ in range(14):
            y = 1 - 2 * y * y
        return y


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("name", "method"), latin(OF_TORCH, ["same", "bln"]))
def test_rows_and_best_layer_configuration_equal_the_plain_loop(name, method):
    subject = prepare(Setting(name, method, 4, 32), torch.float64)
    rows, searched = compare_rows(subject), compare_search(subject)
    assert rows["rows"] >= 4
    assert max(rows["mean_loss"], rows["losses"], searched["losses"]) < 1e-10
    assert searched["traced"]
    assert not rows["ill_conditioned"]
    assert method == "bln" or subject.changed < 1e-10


def test_wrong_losses_are_reported(monkeypatch):
    subject = prepare(Setting(OF_TORCH[0], "same", 4, 32), torch.float64)
    right = zoo_comparison.losses_in
    monkeypatch.setattr(zoo_comparison, "losses_in", lambda ranked, choice: right(ranked, choice) + 0.01)
    assert compare_rows(subject)["losses"] > 1e-3


def test_ill_conditioned_rows_are_compared_in_double_precision():
    torch.manual_seed(0)
    parts = nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 8), Chaotic(), nn.Linear(8, 10)
    network = convert(nn.Sequential(*parts).eval(), method="same")
    batches = [(torch.randn(6, 12), torch.randint(0, 10, (6,))) for _ in range(4)]
    rows = compare_rows(Prepared(network, batches, batches))
    assert set(rows["ill_conditioned"]) & {"TT-- frozen", "TF-- frozen", "FT-- frozen", "FF--"}
    assert max(rows["ill_conditioned"].values()) < 1e-6
