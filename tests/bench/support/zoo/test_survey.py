"""The survey of library networks, on networks that torch alone makes."""

from __future__ import annotations

import re
import time

import pytest
from torch import nn

from bench import zoo
from bench.support.zoo.comparison import Setting
from bench.support.zoo.networks import Subject, images
from bench.support.zoo.survey import summarize_survey, summary_line, survey_conversion, survey_evaluation
from bench.support.zoo.surveyed import Surveyed


class Mixing(nn.Module):
    """A layer that mixes the examples of a mini-batch."""

    def forward(self, x):
        return x - x.mean(0)


class Sleeping(nn.Module):
    """A layer that uses the processor for long."""

    def forward(self, x):
        end = time.process_time() + 30
        while time.process_time() < end:
            x = x + 0
        return x


class OwnNetwork(Surveyed):
    """A network of this test by its name."""

    def build(self, pixels=None):
        parts = {
            "batch norm": [nn.BatchNorm2d(3)],
            "groups": [nn.GroupNorm(3, 3)],
            "both": [nn.BatchNorm2d(3), nn.GroupNorm(3, 3)],
            "none": [nn.ReLU()],
            "mixing": [nn.BatchNorm2d(3), Mixing()],
            "sleeping": [nn.BatchNorm2d(3), Sleeping()],
        }
        if self.name == "missing":
            raise RuntimeError("no such network\nat all")
        return nn.Sequential(*parts[self.name], nn.Flatten(), nn.Linear(3 * 64, 10))

    @property
    def sizes(self):
        return (8,)


def own(name):
    return OwnNetwork("torch", name, name, is_evaluated=True)


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("batch norm", "converted", None),
        ("both", "partly converted", r"1 × torch\.nn\.GroupNorm"),
        ("groups", "refused", r"it has 1 × torch\.nn\.GroupNorm"),
        ("none", "no normalization layer", "has no BatchNorm or LayerNorm layer"),
        ("missing", "not built", "RuntimeError: no such network$"),
    ],
)
def test_conversion_is_classified(name, status, reason):
    entry = survey_conversion(own(name))
    assert entry["status"] == status
    assert (reason is None) == (entry["reason"] is None)
    assert reason is None or re.search(reason, entry["reason"])


def test_evaluation_equals_the_plain_loop():
    result = survey_evaluation(own("batch norm"), 30)
    assert (result["one_pass"], result["rows"], result["pixels"]) == (True, 7, 8)
    assert max(result["losses"], result["changed"]) < 1e-5


def test_network_that_mixes_examples_or_takes_too_long_is_reported():
    result = survey_evaluation(own("mixing"), 30)
    assert not result["one_pass"]
    assert "does not treat examples independently" in result["refusal"]
    assert result["rows"] == 7
    assert survey_evaluation(own("sleeping"), 0.05)["failed"] == "it takes more than 0.05 s of processor time"


def test_summary_counts_networks_by_library_and_result():
    entries = [
        {"library": "torch", "network": name, "family": name, "reason": None, **survey_conversion(own(name))}
        for name in ("batch norm", "both", "none")
    ]
    entries[0]["evaluation"] = survey_evaluation(own("batch norm"), 30)
    entries[1]["evaluation"] = {"failed": "it takes too long"}
    summary = summarize_survey(entries)
    assert summary["statuses"] == {"torch": {"converted": 1, "partly converted": 1, "no normalization layer": 1}}
    assert (summary["evaluated"], summary["in_one_pass"], summary["failed"]) == (1, 1, ["both"])
    assert all(summary_line(entry).startswith("torch") for entry in entries)


def test_rejected_network_is_a_result_of_the_benchmark(monkeypatch):
    layers = nn.Flatten(), nn.Linear(3 * 32 * 32, 10)
    monkeypatch.setitem(zoo.NETWORKS, "plain", Subject("torch", lambda _: nn.Sequential(*layers), images))
    entry = zoo.try_setting(Setting("plain", "same", 4, 32))
    assert "has no BatchNorm or LayerNorm layer" in entry["failed"]
    of_torch = zoo.try_setting(Setting("LSTM with LN", "same", 4, 32))
    assert zoo.summarize([entry, of_torch])["failed"] == ["plain"]
