"""The losses of ranked rows: which rows are drawn and marked, and where."""

from __future__ import annotations

import json
import math

import pytest

from bln_search.reports.charts.row_losses import RowLoss, row_losses_chart
from tests.reports.charts.figures import traces_by_name, values_out_of_range


def rows(losses, recommended=0, in_use=None, half=0.01):
    return [
        RowLoss(f"row {n}", loss, half, n % 2 == 0, is_recommended=n == recommended, is_in_use=n == in_use)
        for n, loss in enumerate(losses)
    ]


def draw(losses, *, unit="nats", margin=0.01, **options):
    return row_losses_chart(rows(losses, **options), split="validation", scope="examples", unit=unit, margin=margin)


def drawn_labels(figure):
    return list(figure["layout"]["yaxis"]["categoryarray"])[::-1]


def test_diverged_rows_stand_at_the_end_of_the_axis_with_their_loss():
    useful = [0.31, 0.32, 0.4]
    figure = draw([*useful, 43_120.4, 61_234.0], in_use=4).figure
    values, position = values_out_of_range(figure)
    assert values == {"row 3": "43,120", "row 4": "61,234"}
    low, high = figure["layout"]["xaxis"]["range"]
    assert low < useful[0] < useful[-1] < position < high < 0.5
    assert traces_by_name(figure)["in use"]["x"] == [position]
    points = traces_by_name(figure)
    assert points["independent of the mini-batch"]["x"] == [0.31, 0.4]
    assert points["depends on the mini-batch"]["x"] == [0.32]


@pytest.mark.parametrize(
    "losses", [[-3.2, -3.1, 0.5], [0.3], [0.7, 0.7, 0.7], [0.0, 0.0], [0.2, math.inf], [1e-9, 2e-9]]
)
def test_odd_losses_are_drawn_within_the_axis(losses):
    figure = draw(losses).figure
    low, high = figure["layout"]["xaxis"]["range"]
    places = [x for trace in figure["data"] for x in trace["x"]]
    assert all(low < x < high for x in places)
    json.dumps(figure, allow_nan=False)


def test_recommended_row_row_in_use_and_margin_are_marked():
    figure = draw([0.30, 0.305, 0.4], recommended=1, in_use=2).figure
    traces = traces_by_name(figure)
    assert (traces["recommended"]["y"], traces["in use"]["y"]) == (["row 1"], ["row 2"])
    (band,) = figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (0.30, pytest.approx(0.31))
    assert "margin 0.01 nats" in band["name"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "mean validation loss (nats)"
    assert draw([0.3], unit="").figure["layout"]["xaxis"]["title"]["text"] == "mean validation loss"
    assert not draw([0.3], margin=0.0).figure["layout"]["shapes"]


def test_of_many_rows_the_first_40_and_the_marked_ones_are_drawn():
    chart = draw([1 + n / 1_000 for n in range(65_536)], recommended=17, in_use=50_000)
    assert drawn_labels(chart.figure) == [*(f"row {n}" for n in range(40)), "row 50000"]
    assert "41 of 65,536 rows" in chart.figure["layout"]["yaxis"]["title"]["text"]
    assert chart.figure["layout"]["height"] < 1_200
    assert len(chart.rows) == 65_536


def test_ends_of_a_long_label_are_kept_and_equal_short_labels_are_numbered():
    names = ["a" * 100 + "b" * 100, "a" * 100 + "c" + "b" * 99, "short"]
    labelled = [RowLoss(name, 1.0 + n, 0.1, is_independent=True) for n, name in enumerate(names)]
    figure = row_losses_chart(labelled, split="test", scope="examples", unit="", margin=0).figure
    axis = figure["layout"]["yaxis"]
    ticks = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    assert ticks.keys() == set(names)
    assert ticks["short"] == "short"
    assert len(set(ticks.values())) == 3
    assert max(map(len, ticks.values())) < 40


def test_the_margin_is_within_the_axis_where_all_rows_are_practically_equal():
    figure = draw([0.300, 0.301], half=0.0).figure
    (band,) = figure["layout"]["shapes"]
    assert band["x1"] < figure["layout"]["xaxis"]["range"][1]
