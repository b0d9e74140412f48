"""Arms that do no better than guessing are named, with what they reach and what guessing does."""

from __future__ import annotations

import pytest

from bln_search.core.class_prior import Guess
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import Scored, rank
from bln_search.ranking.selection.baseline_check import Doubt, doubt_of

GUESS = Guess(loss=0.7, accuracy=0.5)


def board(losses, ranked_on=Split.VALIDATION):
    """Of loss by (arm, seed, configuration) on the split that decides; the other one has none worth a doubt."""
    other = Split.TEST if ranked_on is Split.VALIDATION else Split.VALIDATION
    scored = []
    for (arm, seed, word), loss in losses.items():
        for split, value in ((ranked_on, loss), (other, 0.1)):
            key = EvaluationKey(InferenceConfiguration(word), PopulationEstimate.FROZEN, 1, split)
            state = EvaluationState.MEASURED if value is not None else EvaluationState.UNDEFINED
            accuracy = None if value is None else 0.25
            scored.append(Scored(arm, seed, Evaluation(key, state, 9, value, accuracy, None)))
    return rank(scored, ranked_on)


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.TEST])
def test_every_arm_is_doubtful(split):
    losses = {("bn", 0, "TT--"): 0.75, ("bn", 0, "FF--"): 0.9, ("ln", 0, "--FF"): 0.8}
    found = doubt_of(board(losses, split), GUESS)
    assert found == Doubt(arms=("bn", "ln"), every=True, split=split, loss=0.75, accuracy=0.25, guess=GUESS)
    assert found.words == (
        f"No row does better than guessing: the least {split} loss is 0.7500 (accuracy 25.0%), that of always "
        "answering with the shares of the classes 0.7000 (50.0%). Was anything learned?"
    )


def test_an_arm_with_one_row_that_does_better_is_not_named():
    losses = {("bln", 0, "TTTT"): 0.69, ("bln", 0, "FFFF"): 0.9, ("bn", 0, "TT--"): 0.75, ("ln", 0, "--FF"): 0.72}
    found = doubt_of(board(losses), GUESS)
    assert (found.arms, found.every, found.loss) == (("ln", "bn"), False, 0.72)
    assert found.words.startswith("No row of ln or bn does better than guessing: the least validation loss is 0.7200")


def test_no_more_than_guessing_is_no_better():
    assert doubt_of(board({("bn", 0, "TT--"): 0.7}), GUESS) is not None
    assert doubt_of(board({("bn", 0, "TT--"): 0.6999}), GUESS) is None


def test_the_mean_over_seeds_counts():
    assert doubt_of(board({("bn", 0, "TT--"): 0.6, ("bn", 1, "TT--"): 0.9}), GUESS).loss == pytest.approx(0.75)
    assert doubt_of(board({("bn", 0, "TT--"): 0.6, ("bn", 1, "TT--"): 0.7}), GUESS) is None


def test_rows_without_a_rank_and_tables_without_rows_say_nothing():
    assert doubt_of(board({("bn", 0, "TT--"): None}), GUESS) is None
    assert doubt_of(board({("bn", 0, "TT--"): None, ("ln", 0, "--FF"): 0.8}), GUESS).arms == ("ln",)
    assert doubt_of(rank([], Split.VALIDATION), GUESS) is None


def test_where_nobody_knows_what_guessing_reaches_nothing_is_said():
    assert doubt_of(board({("bn", 0, "TT--"): 9.0}), None) is None
