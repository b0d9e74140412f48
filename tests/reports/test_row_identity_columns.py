"""Columns that tables of rows share."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate
from bln_search.core.records import RowKey
from bln_search.reports.leaderboard_table import row_identity_columns


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
