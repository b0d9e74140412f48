"""Arms without a row better than the class-prior baseline are reported with both losses."""

from __future__ import annotations

import pytest

from bln_search.core.class_prior import ClassPriorBaseline
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.selection.baseline_check import ArmsNoBetterThanPrior, find_arms_no_better_than_prior

BASELINE = ClassPriorBaseline(loss=0.7, accuracy=0.5)


def board(losses, ranked_on=Split.VALIDATION):
    """Of loss by (arm, seed, configuration) on the split that decides; the other one is better than the baseline."""
    other_split = Split.TEST if ranked_on is Split.VALIDATION else Split.VALIDATION
    scored = []
    for (arm, seed, code), loss in losses.items():
        for split, value in ((ranked_on, loss), (other_split, 0.1)):
            key = EvaluationKey(InferenceConfiguration(code), PopulationEstimate.FROZEN, 1, split)
            state = EvaluationState.MEASURED if value is not None else EvaluationState.UNDEFINED
            accuracy = None if value is None else 0.25
            scored.append(TrialEvaluation(arm, seed, Evaluation(key, state, 9, value, accuracy, None)))
    return build_leaderboard_from_evaluations(scored, ranked_on)


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.TEST])
def test_every_arm_is_no_better(split):
    losses = {("bn", 0, "TT--"): 0.75, ("bn", 0, "FF--"): 0.9, ("ln", 0, "--FF"): 0.8}
    check = find_arms_no_better_than_prior(board(losses, split), BASELINE)
    assert check == ArmsNoBetterThanPrior(
        arms=("bn", "ln"), all_arms=True, split=split, loss=0.75, accuracy=0.25, baseline=BASELINE
    )


def test_an_arm_with_one_better_row_is_not_reported():
    losses = {("bln", 0, "TTTT"): 0.69, ("bln", 0, "FFFF"): 0.9, ("bn", 0, "TT--"): 0.75, ("ln", 0, "--FF"): 0.72}
    check = find_arms_no_better_than_prior(board(losses), BASELINE)
    assert (check.arms, check.all_arms, check.loss) == (("ln", "bn"), False, 0.72)


def test_an_equal_loss_is_no_better():
    assert find_arms_no_better_than_prior(board({("bn", 0, "TT--"): 0.7}), BASELINE) is not None
    assert find_arms_no_better_than_prior(board({("bn", 0, "TT--"): 0.6999}), BASELINE) is None


def test_the_mean_over_seeds_counts():
    assert find_arms_no_better_than_prior(
        board({("bn", 0, "TT--"): 0.6, ("bn", 1, "TT--"): 0.9}), BASELINE
    ).loss == pytest.approx(0.75)
    assert find_arms_no_better_than_prior(board({("bn", 0, "TT--"): 0.6, ("bn", 1, "TT--"): 0.7}), BASELINE) is None


def test_rows_without_a_rank_are_ignored():
    assert find_arms_no_better_than_prior(board({("bn", 0, "TT--"): None}), BASELINE) is None
    assert find_arms_no_better_than_prior(board({("bn", 0, "TT--"): None, ("ln", 0, "--FF"): 0.8}), BASELINE).arms == (
        "ln",
    )
    assert find_arms_no_better_than_prior(build_leaderboard_from_evaluations([], Split.VALIDATION), BASELINE) is None


def test_nothing_is_reported_without_a_baseline():
    assert find_arms_no_better_than_prior(board({("bn", 0, "TT--"): 9.0}), None) is None
