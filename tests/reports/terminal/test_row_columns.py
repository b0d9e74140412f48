"""The group column is shown where its letters add something and can be read."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.records import RowKey
from bln_search.reports.terminal.row_columns import group_letters_or_rank_range_column, row_identity_columns
from tests.ranking.comparisons import compared


def rows(*letters, highest=4):
    comparison = compared("TTTT", "FTTT", "TTFF", "FFFF")
    return [
        row.model_copy(update={"letters": letter, "lowest_rank": 1 + index, "highest_rank": highest})
        for index, (row, letter) in enumerate(zip(comparison.rows, letters, strict=True))
    ]


def test_letters_are_shown_for_several_groups():
    assert group_letters_or_rank_range_column(rows("a", "ab", "bc", "c"), 1).cells == ["a", "ab", "bc", "c"]


def test_one_group_needs_no_column():
    same = [row.model_copy(update={"lowest_rank": 1}) for row in rows("a", "a", "a", "a")]
    assert group_letters_or_rank_range_column(same, 1) is None


@pytest.mark.parametrize("last", ["abcdefgh", "z(27)(28)", None])
def test_letters_that_cannot_be_read_give_way_to_rank_ranges(last):
    letters = (None,) * 4 if last is None else ("a", "b", "c", last)
    column = group_letters_or_rank_range_column(rows(*letters), 1)
    assert column.name == "rank range"
    assert column.cells == ["1–4", "2–4", "3–4", "4–4"]


def test_rows_that_were_not_compared_have_empty_cells():
    assert group_letters_or_rank_range_column([*rows("a", "ab", "bc", "c"), None], 1).cells[-1] == ""


def key(code="TTTT", arm="bln", estimate=PopulationEstimate.FROZEN, batch_size=25):
    return RowKey(arm, "", InferenceConfiguration(code), estimate, batch_size)


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (key("FFFF", estimate=None), ["configuration", "population"]),
        (key(arm="other"), ["arm", "configuration", "population"]),
        (key(batch_size=1), ["configuration", "population", "batch"]),
    ],
)
def test_only_what_differs_is_a_column(other, names):
    assert [column.name for column in row_identity_columns([key(), other], 1)] == names


def test_the_population_is_dropped_only_where_it_does_not_identify_a_row():
    (_, one), (_, several) = (
        row_identity_columns([key(), key(estimate=estimate)], 7)
        for estimate in (PopulationEstimate.FROZEN, PopulationEstimate.MOVING)
    )
    assert one.drop_order == 7
    assert several.drop_order is None
    assert several.is_key


def test_the_legend_explains_the_letters_that_occur():
    legends = [row_identity_columns([key(code)], 1)[0].legend for code in ("TTFF", "MM--")]
    assert "T population, F mini-batch" in legends[0]
    assert "memory" not in legends[0]
    assert "M memory, - absent" in legends[1]
