"""The benchmark of library networks: a rejected network is part of its result."""

from __future__ import annotations

from torch import nn

from bench import zoo
from bench.support.zoo.comparison import Setting
from bench.support.zoo.networks import Subject, images


def test_rejected_network_is_a_result(monkeypatch):
    layers = nn.Flatten(), nn.Linear(3 * 32 * 32, 10)
    monkeypatch.setitem(zoo.NETWORKS, "plain", Subject("torch", lambda _: nn.Sequential(*layers), images))
    entry = zoo.try_setting(Setting("plain", "same", 4, 32))
    assert "has no BatchNorm or LayerNorm layer" in entry["failed"]
    of_torch = zoo.try_setting(Setting("LSTM with LN", "same", 4, 32))
    assert zoo.summarize([entry, of_torch])["failed"] == ["plain"]
