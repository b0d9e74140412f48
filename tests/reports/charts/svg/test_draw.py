"""Charts as SVG: every kind is well formed, all names are escaped, and points stand where their values are."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from bln_search.reports.charts.svg.axis_scale import AxisScale
from bln_search.reports.charts.svg.draw import draw_svg
from tests.reports.charts.test_image import NAMES, differences, heat_map, layers, lines, row_losses

CHARTS = {each.__name__: each for each in (row_losses, heat_map, lines, differences, layers)}


def parse(chart):
    return ElementTree.fromstring(draw_svg(chart))


def texts(svg):
    return [element.text for element in svg.iter("text")]


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_an_image_with_a_label_inside_its_frame(name):
    chart = CHARTS[name]()
    svg = parse(chart)
    assert (svg.get("role"), svg.get("aria-label")) == ("img", chart.title)
    _, _, width, height = map(float, svg.get("viewBox").split())
    for element in svg.iter("text"):
        assert 0 <= float(element.get("y")) <= height
        assert element.get("transform") or 0 <= float(element.get("x")) <= width
    for element in svg.iter("circle"):
        assert 0 < float(element.get("cx")) < width
        assert 0 < float(element.get("cy")) < height


@pytest.mark.parametrize("name", CHARTS)
def test_no_chart_contains_a_script_a_style_or_an_address(name):
    tags = {element.tag for element in parse(CHARTS[name]()).iter()}
    assert tags <= {"svg", "text", "line", "circle", "rect", "polygon", "polyline", "path", "title"}


def test_names_are_escaped_and_long_ones_shortened():
    written = texts(parse(differences()))
    assert NAMES[1] in written
    assert not any("x" * 40 in text for text in written)
    assert "43120" in "".join(written).replace(",", "").replace(" ", "")  # beyond the axis: as text


def test_a_difference_stands_at_its_tick():
    rows = [
        {"row": name, "verdict": "", "difference": value, "low": value - 0.5, "high": value + 0.5}
        for name, value in (("a", 0.0), ("b", 1.0), ("c", 2.0))
    ]
    chart = differences_of(rows)
    svg = parse(chart)
    ticks = {element.text: float(element.get("x")) for element in svg.iter("text")}
    points = [float(element.get("cx")) for element in svg.iter("circle")][:3]
    assert points == pytest.approx([ticks["0"], ticks["1"], ticks["2"]], abs=0.11)
    places = {element.text: float(element.get("y")) for element in svg.iter("text")}
    assert places["a"] < places["b"] < places["c"]


def differences_of(rows):
    from bln_search.reports.charts.comparison import differences_chart

    return differences_chart(rows, [""] * len(rows), 0.1, "difference", marks={})


@pytest.mark.parametrize(
    "values", [[], [1.0], [math.nan, None, math.inf], [0.0, 1e-300], [1e300, -1e300], [3.0, 3.0]], ids=str
)
def test_an_axis_has_a_range_for_any_values(values):
    axis = AxisScale({}, [values])
    assert all(0.0 <= part <= 1.0 for part, _ in axis.list_ticks())
    finite = [value for value in values if value is not None and math.isfinite(value)]
    assert [axis.part(value) is not None for value in values] == [value in finite for value in values]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.03, 0.07), (12.0, 9_000.0), (1e-9, 3e-9)])
def test_ticks_are_few_round_numbers_in_the_range(low, high):
    ticks = AxisScale({"range": [low, high]}, []).list_ticks()
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-12 <= float(label) <= high + 1e-12 for _, label in ticks)


def test_a_logarithmic_axis_has_equal_steps_for_equal_ratios():
    axis = AxisScale({"type": "log", "tickvals": [1, 10, 100], "ticktext": ["1", "10", "100"]}, [[1, 10, 100]])
    first, second, third = (part for part, _ in axis.list_ticks())
    assert second - first == pytest.approx(third - second)
    assert axis.part(0) is None
