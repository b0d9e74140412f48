"""The rows that are compared are the best ones, and always one without normalization."""

from __future__ import annotations

import pytest

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.method import Method
from bln_search.core.records import RowKey
from bln_search.worker.analysis.comparison import select_compared_rows

NORMALIZED = [RowKey("bln", "", code, "frozen", 25) for code in all_configurations(Method.BLN)]
PLAIN = [RowKey("none", "", InferenceConfiguration("----"), None, size) for size in (25, 1)]


@pytest.mark.parametrize("position", [0, 2, 3, 16])
def test_the_best_row_without_normalization_is_compared_at_any_rank(position):
    ranked = [*NORMALIZED[:position], *PLAIN, *NORMALIZED[position:]]
    compared = select_compared_rows(ranked, 4)
    assert len(compared) == 4
    assert PLAIN[0] in compared
    assert compared == sorted(compared, key=ranked.index)
    assert compared[:3] == ranked[:3]


def test_the_row_in_use_is_compared_at_any_rank():
    ranked = [*NORMALIZED, *PLAIN]
    assert select_compared_rows(ranked, 4, NORMALIZED[9]) == [*NORMALIZED[:2], PLAIN[0], NORMALIZED[9]]
    assert select_compared_rows(ranked, 4, NORMALIZED[1]) == [*NORMALIZED[:3], PLAIN[0]]


def test_without_such_an_arm_the_first_rows_are_compared():
    assert select_compared_rows(NORMALIZED, 4) == NORMALIZED[:4]
    assert select_compared_rows(NORMALIZED, 40) == NORMALIZED
