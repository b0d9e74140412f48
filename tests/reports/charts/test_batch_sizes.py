"""What is minimized, by mini-batch size."""

from __future__ import annotations

import pytest

from bln_search.reports.charts.batch_sizes import criterion_values_by_batch_size_chart
from tests.reports.charts.figures import traces_by_name, values_out_of_range

LOWEST = [0.5, 0.4, 0.3]


def draw(margins=(0.01, 0.01, 0.01), **lines):
    return criterion_values_by_batch_size_chart(
        [1, 4, 16],
        {"lowest": LOWEST, **lines},
        name="mean loss of the worst condition",
        unit="nats",
        lowest=LOWEST,
        margins=margins,
    )


def test_a_value_far_above_is_marked_and_its_line_ends_at_the_axis():
    chart = draw(used=[43_000.0, 0.5, 0.35], missing=[None, 0.45, 0.4])
    values, position = values_out_of_range(chart.figure, along="y")
    assert values == {1: "43,000"}
    traces = traces_by_name(chart.figure)
    assert traces["used"]["y"] == [position, 0.5, 0.35]
    assert traces["used"]["customdata"] == [43_000.0, 0.5, 0.35]
    assert traces["missing"]["y"][0] is None
    assert chart.figure["layout"]["yaxis"]["range"][1] < 1
    assert {row["value"] for row in chart.rows if row["series"] == "used"} == {43_000.0, 0.5, 0.35}
    assert chart.figure["layout"]["yaxis"]["title"]["text"] == "mean loss of the worst condition (nats)"


def test_the_margin_is_a_region_above_the_lowest_values():
    (region,) = [trace for trace in draw((0.1, 0.2, 0.3)).figure["data"] if trace.get("fill")]
    upper = dict(zip(region["x"][3:], region["y"][3:], strict=True))
    assert upper == pytest.approx({1: 0.6, 4: 0.6, 16: 0.6})
    assert not [trace for trace in draw((0.0, 0.0, 0.0)).figure["data"] if trace.get("fill")]
