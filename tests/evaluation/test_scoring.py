"""Descriptions of values of a wrong type in error messages."""

from __future__ import annotations

import pytest

from bln_search.evaluation.scoring import describe_type


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, "float"),
        ((1, "a"), "(int, str)"),
        ([None], "(NoneType)"),
        ([0] * 4, "(int, int, int, int)"),
        ([0] * 5, "list"),
    ],
)
def test_short_sequences_are_described_by_the_types_of_their_items(value, expected):
    assert describe_type(value) == expected
