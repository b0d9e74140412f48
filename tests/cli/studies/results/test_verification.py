"""The verdict of `bln-search verify` decides its exit code."""

from __future__ import annotations

import pytest

from bln_search.cli.studies.results.verification import TrialReevaluation, VerificationVerdict


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({"compared": 3, "identical": 3}, VerificationVerdict.IDENTICAL),
        ({"compared": 0}, VerificationVerdict.IDENTICAL),
        ({"compared": 3, "identical": 2, "close": 1}, VerificationVerdict.WITHIN_TOLERANCE),
        ({"compared": 3, "identical": 1, "close": 1, "different": 1}, VerificationVerdict.DIFFERENT),
        ({"problem": "the checkpoint is missing"}, VerificationVerdict.DIFFERENT),
    ],
)
def test_one_difference_or_problem_decides(counts, verdict):
    assert TrialReevaluation("bln seed 0", **counts).trial_verdict is verdict
