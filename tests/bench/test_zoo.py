"""The benchmark of library networks, on networks of torch alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench import zoo
from bench.zoo_networks import NETWORKS, Subject, images
from bln_search.api.convert import convert

OF_TORCH = [name for name, subject in NETWORKS.items() if subject.library == "torch"]


class Chaotic(nn.Module):
    """Doubles every difference fourteen times."""

    def forward(self, x):
        y = torch.tanh(x)
        for _ in range(14):
            y = 1 - 2 * y * y
        return y


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("method", ["same", "bln"])
@pytest.mark.parametrize("name", OF_TORCH)
def test_rows_and_best_layer_configuration_equal_the_plain_loop(name, method):
    subject = zoo.prepare(zoo.Setting(name, method, 4, 32), torch.float64)
    rows, search = zoo.compare_rows(subject), zoo.compare_search(subject)
    assert rows["rows"] >= 4
    assert max(rows["mean_loss"], rows["losses"], search["losses"]) < 1e-10
    assert search["traced"]
    assert not rows["ill_conditioned"]
    assert method == "bln" or subject.changed < 1e-10


def test_wrong_losses_are_reported(monkeypatch):
    subject = zoo.prepare(zoo.Setting(OF_TORCH[0], "same", 4, 32), torch.float64)
    right = zoo.losses_in
    monkeypatch.setattr(zoo, "losses_in", lambda ranked, choice: right(ranked, choice) + 0.01)
    assert zoo.compare_rows(subject)["losses"] > 1e-3


def test_ill_conditioned_rows_are_compared_in_double_precision():
    torch.manual_seed(0)
    parts = nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 8), Chaotic(), nn.Linear(8, 10)
    network = convert(nn.Sequential(*parts).eval(), method="same")
    batches = [(torch.randn(6, 12), torch.randint(0, 10, (6,))) for _ in range(4)]
    rows = zoo.compare_rows(zoo.Prepared(network, batches, batches, "1 BN", None))
    assert set(rows["ill_conditioned"]) & {"TT-- frozen", "TF-- frozen", "FT-- frozen", "FF--"}
    assert max(rows["ill_conditioned"].values()) < 1e-6


def test_rejected_network_is_a_result(monkeypatch):
    layers = nn.Flatten(), nn.Linear(3 * 32 * 32, 10)
    monkeypatch.setitem(zoo.NETWORKS, "plain", Subject("torch", lambda _: nn.Sequential(*layers), images))
    entry = zoo.try_setting(zoo.Setting("plain", "same", 4, 32))
    assert "has no BatchNorm1d" in entry["failed"]
    assert zoo.summarize([entry, *[zoo.try_setting(zoo.Setting(OF_TORCH[1], "same", 4, 32))]])["failed"] == ["plain"]
