"""The verdict of `bln-search verify` decides its exit code."""

from __future__ import annotations

import pytest

from bln_search.cli.studies.results.verification import TrialReproduction, Verdict


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({"compared": 3, "identical": 3}, Verdict.IDENTICAL),
        ({"compared": 0}, Verdict.IDENTICAL),
        ({"compared": 3, "identical": 2, "close": 1}, Verdict.WITHIN_TOLERANCE),
        ({"compared": 3, "identical": 1, "close": 1, "different": 1}, Verdict.DIFFERENT),
        ({"problem": "the checkpoint is missing"}, Verdict.DIFFERENT),
    ],
)
def test_one_difference_or_problem_decides(counts, verdict):
    assert TrialReproduction("bln seed 0", **counts).verdict is verdict
