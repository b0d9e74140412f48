"""Differences to the best row, for losses and for scores of which higher ones are better."""

from __future__ import annotations

import pytest

from bln_search.reports.charts.comparison import differences_chart
from bln_search.reports.charts.drawn_rows import IN_USE, RECOMMENDED
from tests.reports.charts.figures import traces_by_name, values_out_of_range


def draw(differences, margin=0.01, recommended=0):
    rows = [
        {"row": f"row {n}", "verdict": "best", "difference": value, "low": value - 0.02, "high": value + 0.02, "p": 1.0}
        for n, value in enumerate(differences)
    ]
    marks = {RECOMMENDED: recommended, IN_USE: None}
    return differences_chart(rows, [""] * len(rows), margin, "difference", marks=marks)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_diverged_row_does_not_flatten_the_others(sign):
    figure = draw([0.0, sign * 0.02, sign * 0.3, sign * 43_000.0], recommended=1).figure
    values, position = values_out_of_range(figure)
    assert values == {"row 3": f"{sign * 43_000:,}"}
    low, high = figure["layout"]["xaxis"]["range"]
    assert max(abs(low), abs(high)) < 0.5
    assert low < position < high
    assert position * sign > 0.3
    assert figure["data"][0]["y"] == ["row 0", "row 1", "row 2"]
    assert traces_by_name(figure)["recommended"]["x"] == [sign * 0.02]


def test_the_margin_is_shaded_on_both_sides_and_within_the_axis():
    figure = draw([0.0, 0.001])
    (band,) = figure.figure["layout"]["shapes"]
    assert (band["x0"], band["x1"]) == (-0.01, 0.01)
    low, high = figure.figure["layout"]["xaxis"]["range"]
    assert low < band["x0"] < band["x1"] < high


def test_of_a_thousand_rows_the_best_are_drawn_and_all_are_data():
    chart = draw([n / 1_000 for n in range(1_000)], recommended=999)
    assert len(chart.figure["data"][0]["y"]) == 41
    assert len(chart.rows) == 1_000
