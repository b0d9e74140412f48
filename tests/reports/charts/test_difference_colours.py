"""Colors of losses resolve small differences beside large ones."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from bln_search.reports.charts.difference_colours import find_difference_colours

USEFUL = [0.0, 0.02, 0.05, 0.1, 0.4, 1.9]


def fractions(differences, margin=0.01):
    """Position of each difference as a fraction of the color scale."""
    colours = find_difference_colours(differences, margin)
    return [colours.position(difference) / colours.trace_options("")["zmax"] for difference in differences]


def test_three_diverged_cells_leave_the_colors_of_the_others_as_they_are():
    useful = fractions(USEFUL)
    assert fractions([*USEFUL, 43_000.0, 61_000.0, math.inf]) == [*useful, 1, 1, 1]
    assert min(after - before for before, after in pairwise(useful)) > 0.05


def test_the_color_bar_says_from_where_cells_are_clipped():
    def last_label(differences):
        return find_difference_colours(differences, 0.01).trace_options("")["colorbar"]["ticktext"][-1]

    assert last_label(USEFUL) == "1.9"
    assert last_label([*USEFUL, 43_000.0]) == "≥ 1.9"


@pytest.mark.parametrize("differences", [[0.0] * 6, [0.0], [0.0, 0.004, 0.002]])
def test_rows_that_are_practically_equal_have_similar_colors(differences):
    assert max(fractions(differences)) < 0.5


@pytest.mark.parametrize("margin", [0.0, None, 1e-9])
def test_ticks_are_positions_of_their_values_without_a_margin_too(margin):
    colours = find_difference_colours([0.0, 1e-3, 2e-3, 3e-3, 0.1], margin)
    bar = colours.trace_options("")["colorbar"]
    values = [float(label.removeprefix("≥ ")) for label in bar["ticktext"]]
    assert bar["tickvals"] == pytest.approx([colours.position(value) for value in values], rel=0.05)
    assert bar["tickvals"] == sorted(set(bar["tickvals"]))
    assert colours.position(None) is None
