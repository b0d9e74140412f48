"""Menus of rows are parsed, and impossible ones are refused."""

from __future__ import annotations

import pytest

from bln_search.core.blend import PopulationWeight
from bln_search.core.method import StatisticSource
from bln_search.core.row_menu import DEFAULT_MENU, check_menu, parse_menu


def test_rows_have_source_and_weight():
    rows = parse_menu(["T", "B@N16", "E@0.9", "F"])
    assert [row.source for row in rows] == [StatisticSource(letter) for letter in "TBEF"]
    assert [row.weight for row in rows] == [None, PopulationWeight(16, is_prior=True), PopulationWeight(0.9), None]
    assert check_menu(DEFAULT_MENU) == DEFAULT_MENU


@pytest.mark.parametrize(
    ("menu", "message"),
    [
        ("TF", "is a list of rows"),
        (3, "is a list of rows"),
        (["T", 0.5], "is a list of rows"),
        ([], "is empty"),
        (["T"], "at least one other row"),
        (["F", "T"], "begins with T"),
        (["T", "F", "F"], "each once"),
        (["T", "X"], "'X' is no row"),
        (["T", ""], "'' is no row"),
        (["T", "B"], "give the weight of B"),
        (["T", "F@0.5"], "remove the weight of F"),
        (["T", "E@2"], "not the weight of a blend"),
        (["T", "E@nan"], "not the weight of a blend"),
    ],
)
def test_impossible_menus_are_refused(menu, message):
    with pytest.raises(ValueError, match=message):
        parse_menu(menu)
