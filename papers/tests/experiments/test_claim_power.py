"""The share of drawn studies that decide a claim is the power of its test."""

from __future__ import annotations

import pytest
from statsmodels.stats.power import TTestPower

from papers.experiments.claim_power import claims_of_study, decision_shares
from papers.experiments.marks import Claim, Comparison

DIFFERENCES = (-1.5, 0.5, -1.0, -2.0, 1.0)


@pytest.mark.parametrize("seeds", [5, 20])
def test_share_of_one_difference_is_the_power_of_students_t_test(seeds):
    claim = Claim("", "first is lower", comparisons=(Comparison("study", "", DIFFERENCES),))
    (share,) = decision_shares([claim], seeds, draws=2000)
    effect = 0.6 / 1.2942179  # mean and deviation of the differences
    assert share == pytest.approx(TTestPower().power(effect, seeds, 0.05), abs=0.04)


def test_more_seeds_decide_that_equal_sides_are_practically_equal():
    equal = Claim("", "equal", comparisons=(Comparison("study", "", (-0.1, 0.1, 0.05, -0.05), margin=0.1),))
    assert decision_shares([equal], 4)[0] < decision_shares([equal], 40)[0] == 1.0


def test_a_claim_keeps_the_measured_differences_of_the_study():
    parts = tuple(Comparison(file, "", DIFFERENCES) for file in ("one", "two", "two_curves"))
    unmeasured = Comparison("two", "not measured", ())
    claims = [Claim("", "all", comparisons=(*parts, unmeasured)), Claim("", "formula")]
    (kept,) = claims_of_study([*claims, Claim("", "missing", comparisons=(unmeasured,))], "two")
    assert kept.comparisons == parts[1:]
