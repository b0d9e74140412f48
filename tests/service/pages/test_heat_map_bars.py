"""Heat maps drawn as bars: the same values at the same places, and labels with contrast."""

from __future__ import annotations

import numpy as np
import pytest
from plotly import graph_objects
from plotly.colors import sample_colorscale

from bln_search.reports.charts.condition_heat_map import row_losses_by_condition_heat_map
from bln_search.reports.charts.per_layer import layer_switch_effects_heat_map
from service.pages.rendering.heat_map_bars import replace_heat_map_by_bars
from tests.ranking.layers import per_layer_result
from tests.reports.test_charts import WORDS, configuration_losses_heat_map, losses, luminance

LOSSES = np.random.default_rng(0).uniform(0.1, 0.9, (5, 3)).tolist()


def heat_map_of_conditions():
    return row_losses_by_condition_heat_map(list("abcde"), list("xyz"), LOSSES, unit="nats", margin=0.01)


def cells(figure):
    """Value by row and column of a figure with bars."""
    trace, axis = figure["data"][0], figure["layout"]["yaxis"]
    rows = dict(zip(axis["tickvals"], axis["ticktext"], strict=True))
    return {
        (rows[base + height / 2], column): value
        for base, height, column, value in zip(
            trace["base"], trace["y"], trace["x"], trace["marker"]["color"], strict=True
        )
    }


def expected_cells(figure):
    trace = figure["data"][0]
    return {
        (row, column): value
        for row, values in zip(trace["y"], trace["z"], strict=True)
        for column, value in zip(trace["x"], values, strict=True)
        if value is not None
    }


@pytest.mark.parametrize(
    "chart",
    [
        configuration_losses_heat_map(losses()),
        heat_map_of_conditions(),
        layer_switch_effects_heat_map(per_layer_result()),
    ],
)
def test_every_value_keeps_its_place(chart):
    drawn = replace_heat_map_by_bars(chart.figure)
    graph_objects.Figure(drawn)  # raises for a property that does not exist or has a wrong value
    assert {trace["type"] for trace in drawn["data"]} == {"bar"}
    assert cells(drawn) == expected_cells(chart.figure)
    assert drawn["layout"]["yaxis"]["range"] == [len(chart.figure["data"][0]["y"]), 0]  # the first row is on top
    assert drawn["layout"]["xaxis"]["categoryarray"] == list(chart.figure["data"][0]["x"])


def test_labels_have_the_contrast_of_small_text():
    trace = replace_heat_map_by_bars(heat_map_of_conditions().figure)["data"][0]
    values = np.array(trace["marker"]["color"])
    backgrounds = sample_colorscale("Viridis", list(values / trace["marker"]["cmax"]))
    assert set(trace["insidetextfont"]["color"]) == {"black", "white"}
    for background, label in zip(backgrounds, trace["insidetextfont"]["color"], strict=True):
        bright, dark = sorted(({"white": 1.0, "black": 0.0}[label], luminance(background)), reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_cells_without_a_value_are_hatched_and_explained():
    chart = configuration_losses_heat_map(losses(codes=WORDS[1:]), {WORDS[0]: "undefined"})
    drawn = replace_heat_map_by_bars(chart.figure)
    graph_objects.Figure(drawn)
    values, missing = drawn["data"]
    assert (len(values["x"]), len(missing["x"])) == (15, 1)
    assert missing["marker"]["pattern"]["shape"]
    assert "colorscale" not in missing["marker"]
    row = drawn["layout"]["yaxis"]["ticktext"][missing["base"][0]]
    assert row + missing["x"][0] == str(WORDS[0])
    assert missing["customdata"][0][2] == "undefined"
    assert "%{customdata[2]}" in missing["hovertemplate"]


def test_other_figures_stay_as_they_are():
    figure = {"data": [{"type": "scatter", "x": [1], "y": [2]}], "layout": {}}
    assert replace_heat_map_by_bars(figure) is figure
    assert replace_heat_map_by_bars({"data": [], "layout": {}}) == {"data": [], "layout": {}}


def test_heat_map_without_values_has_no_bars():
    figure = {
        "data": [{"type": "heatmap", "x": ["a"], "y": ["b"], "z": [[None]]}],
        "layout": {"xaxis": {}, "yaxis": {}},
    }
    assert replace_heat_map_by_bars(figure)["data"] == [{"type": "bar", "x": [], "y": []}]
