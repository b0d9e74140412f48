"""Rows are ordered by the values of cells, not by their letters."""

from __future__ import annotations

import pytest

from bln_search.reports.notebook.row_order import rank_rows
from bln_search.reports.tables.columns import CellKind, Column


def order(cells, kind=CellKind.NUMBER):
    return rank_rows(Column("name", cells, kind), len(cells))


@pytest.mark.parametrize(
    "ascending",
    [
        ["-1.5", "−1", "+0.25", "1e-1", "3", "20", "1,000"],
        ["< 0.001", "0.001", "0.002 ± 9", "≥ 0.002", "1"],
        ["-0.06 [-0.76, +0.63]", "+0.01 [-9, +9]", "+0.2 [0, 1]"],
        ["9.5 %", "45%", "100%", "all", "not finite"],
        ["▲ 2", "10"],
    ],
)
def test_numbers_come_by_value_and_words_after_them(ascending):
    ascending = sorted(ascending, key=ascending.index)
    places = order(ascending)
    if "1e-1" in ascending:  # 0.1 is smaller than 0.25
        assert places == [0, 1, 3, 2, 4, 5, 6]
    else:
        assert places == list(range(len(ascending)))


def test_texts_come_by_their_numbers_and_without_their_case():
    assert order(["bn 10", "BN 2", "a", "²"], CellKind.TEXT) == [2, 1, 0, 3]


def test_equal_cells_share_a_place_and_missing_ones_have_none():
    assert order(["2", "–", "1", "2", ""]) == [1, None, 0, 1, None]


@pytest.mark.parametrize("cells", [[], ["1"], ["1", "1.0"], ["–", ""]])
def test_a_column_with_equal_rows_has_no_order(cells):
    assert order(cells) is None
