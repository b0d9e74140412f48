"""What an analysis says in sentences."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.enums import Split
from bln_search.ranking.analysis import Analysis
from bln_search.ranking.paired import compare
from bln_search.ranking.selection.selection_bias import Selection
from bln_search.reports.charts.comparison import critical_difference_chart
from bln_search.reports.comparison import analysis_lines
from tests.ranking.tables import CANDIDATES, draw

SELECTION = Selection(
    chosen_on=Split.VALIDATION,
    reported_on=Split.TEST,
    loss=0.5,
    loss_there=0.6,
    accuracy_there=0.9,
    place_there=2,
    of=4,
    regret=0.01,
    accuracy_regret=0.0,
)


def compared(*, difference=0.0, left_out=0):
    made = draw(np.random.default_rng(1), rows=4, of_seed=0.3, examples=60, difference=difference)
    return compare(CANDIDATES[:4], made, Split.VALIDATION, left_out=left_out)


def line(found, start):
    lines = analysis_lines(Analysis(comparison=found, selection=SELECTION))
    (told,) = [one for one in lines if one.startswith(start)]
    return told


@pytest.mark.parametrize(("left_out", "about"), [(0, "about"), (3, "at least")])
def test_the_loss_of_the_selected_row_is_said_with_its_selection_bias(left_out, about):
    found = compared(left_out=left_out)
    assert f"optimistic by {about} {found.optimism:.4f} (selection bias)" in line(found, "The row of lowest")


def test_a_row_that_is_far_ahead_is_said_without_a_bias():
    assert "bias" not in line(compared(difference=20.0), "The row of lowest")


def test_friedmans_test_is_said_to_be_about_these_examples():
    found = compared()
    assert "5 seeds, for these 60 examples only" in line(found, "Friedman")
    assert "5 seeds, for these 60 examples only" in critical_difference_chart(found).about
