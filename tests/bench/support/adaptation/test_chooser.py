"""The regret of the chooser is measured against fixed rows on the same streams."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bench.support.adaptation.chooser import measure_regret
from tests.adaptation.trained_digits import load_digits_data

MENU = ("T", "B@N16", "E@0.9", "F")


@pytest.fixture(scope="module")
def result():
    (inputs, _), (stream, targets) = load_digits_data()
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    )
    for _ in range(30):
        network(inputs[:200])
    chosen = stream[:160], targets[:160]
    data = {"clean": chosen, "contrast": (0.4 * chosen[0] + 0.8, chosen[1])}
    return measure_regret(network.eval(), inputs[:400], data, 2, menu=MENU, batch_size=20, rounds=2)


def test_rows_and_chooser_have_errors_by_condition(result):
    assert set(result["errors"]) == {*MENU, "chooser"}
    assert all(0 <= error <= 100 for errors in result["errors"].values() for error in errors.values())
    assert result["errors"]["chooser"]["clean"] == result["errors"]["T"]["clean"]
    assert result["clean_excess_max"] == result["clean_segment_excess_max"] == 0


def test_curve_ends_at_the_regret_of_the_stream(result):
    curve = result["regret_curve"]
    assert len(curve) <= 100
    assert curve[0][0] == 1
    assert curve[-1][0] == 320
    assert curve[-1][1] / 320 * 100 == pytest.approx(result["regret_mean"])
    assert result["regret_max"] >= result["regret_mean"]
    chooser = result["errors"]["chooser"]
    best = min(sum(result["errors"][row].values()) for row in MENU)
    assert result["regret_mean"] >= (sum(chooser.values()) - best) / 2 - 1e-9


def test_choices_and_passes_are_counted_by_condition(result):
    assert result["choices"]["clean"] == {"T": 1}
    assert "T" not in result["choices"]["contrast"]
    assert sum(result["choices"]["contrast"].values()) == pytest.approx(1)
    assert result["passes"]["clean"] == 1
    assert 1 <= result["passes"]["contrast"] <= 2
