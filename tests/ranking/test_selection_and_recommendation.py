"""What choosing costs, and which row to use."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.comparison import ComparedPair, ComparedRow, Comparison, Difference
from bln_search.ranking.leaderboard import Scored, rank
from bln_search.ranking.paired import OutcomeTable, compare
from bln_search.ranking.selection.recommendation import Confidence, recommend
from bln_search.ranking.selection.selection_bias import selection

FROZEN = PopulationEstimate.FROZEN


def board(figures, ranked_on=Split.VALIDATION):
    """Of (validation loss, test loss, test accuracy) by configuration; the last two None where test is missing."""
    scored = []
    for word, (here, there, accuracy) in figures.items():
        for split, loss, right in ((Split.VALIDATION, here, 0.5), (Split.TEST, there, accuracy)):
            if loss is not None:
                key = EvaluationKey(InferenceConfiguration(word), FROZEN, 25, split)
                scored.append(Scored("bln", 0, Evaluation(key, EvaluationState.MEASURED, 9, loss, right, None)))
    return rank(scored, ranked_on)


def test_the_chosen_row_is_judged_where_nothing_was_chosen():
    found = selection(board({"TTTT": (0.1, 0.5, 0.8), "FTTT": (0.2, 0.3, 0.9), "TFTT": (0.3, 0.6, 0.95)}))
    assert (found.chosen_on, found.reported_on, found.of) == (Split.VALIDATION, Split.TEST, 3)
    assert (found.loss, found.loss_there, found.accuracy_there, found.place_there) == (0.1, 0.5, 0.8, 2)
    assert (found.gap, found.regret) == pytest.approx((0.4, 0.2))
    assert found.accuracy_regret == pytest.approx(0.15)


def test_a_choice_that_is_best_there_too_has_nothing_to_regret():
    found = selection(board({"TTTT": (0.1, 0.2, 0.9), "FTTT": (0.2, 0.2, 0.9)}))
    assert (found.place_there, found.regret, found.accuracy_regret) == (1, 0, 0)


def test_rows_chosen_on_test_are_reported_on_validation():
    found = selection(board({"TTTT": (0.4, 0.5, 0.8), "FTTT": (0.2, 0.3, 0.9)}, Split.TEST))
    assert (found.reported_on, found.loss, found.loss_there) == (Split.VALIDATION, 0.3, 0.2)


@pytest.mark.parametrize("figures", [{}, {"TTTT": (0.1, None, None)}])
def test_without_the_other_split_nothing_is_said(figures):
    assert selection(board(figures)) is None


def test_rows_that_lack_the_other_split_are_not_counted():
    found = selection(board({"TTTT": (0.1, 0.5, 0.8), "FTTT": (0.2, None, None)}))
    assert (found.place_there, found.of) == (1, 1)


def compared(*words, apart=(), seeds=3, left_out=0, batch_size=25, step=0.01, p=0.5):
    """Rows in this order, losses 1, 1.01, …; `apart` from the first row; the interval ends 0.005 beyond its mean."""
    rows = tuple(
        ComparedRow(
            arm="bln",
            point="",
            configuration=word,
            estimate=FROZEN if "T" in word else None,
            batch_size=batch_size,
            loss=1 + step * place,
            accuracy=0.9 - 0.1 * place,
            letters="a",
            shares_first=word not in apart,
            lowest_rank=1,
            highest_rank=len(words),
            mean_rank=None,
            first_share=0.25,
        )
        for place, word in enumerate(words)
    )
    none = {"mcnemar": (), "wilcoxon": (), "permutation": ()}
    pairs = []
    for place in range(1, len(words)):
        mean = -step * place
        own = 0.01 if words[place] in apart else p
        loss = Difference(mean=mean, low=mean - 0.005, high=mean + 0.005, p=own, adjusted=own)
        pairs.append(ComparedPair(first=0, second=place, loss=loss, accuracy=loss, **none))
    made = {"rows": rows, "pairs": tuple(pairs), "left_out": left_out, "optimism": 0.0}
    return Comparison(split=Split.VALIDATION, seeds=seeds, examples=9, friedman=None, draws=1, flips=1, **made)


@pytest.mark.parametrize(
    ("words", "apart", "expected"),
    [
        (("FFFF", "FTTT", "TTFF"), (), "TTFF"),  # deterministic before cheaper
        (("FFFF", "TTFF", "TTTF"), (), "TTTF"),  # cheaper before lower loss
        (("TTFT", "TTTF"), (), "TTFT"),  # lower loss where both cost the same
        (("FFFF", "FTTT", "TTTT"), ("TTTT",), "FTTT"),  # only what is near
        (("FFFF", "FTTF", "TTTT"), ("FTTF",), "TTTT"),  # one in between that is told to be worse does not matter
        (("FFFF", "TTTT"), ("TTTT",), "FFFF"),
    ],
)
def test_of_rows_near_the_best_the_deterministic_then_cheapest_then_best_is_recommended(words, apart, expected):
    found = recommend(compared(*words, apart=apart), {})
    assert found.configuration == expected
    assert found.deterministic == expected.startswith("TT")
    assert found.computed == expected.count("F")
    assert (found.sharing, found.of) == (len(words) - len(apart), len(words))


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ({"step": 0.1, "p": 0.33}, True),
        ({"step": 0.101, "p": 0.9}, False),  # more than a tenth, whatever it scatters
        ({"step": 0.01, "p": 0.31}, False),  # more than a standard error, though not told apart
        ({"step": 0.0049, "p": 0.04}, True),  # at most 0.0099, for certain
        ({"step": 0.0051, "p": 0.04}, False),
    ],
)
def test_not_told_apart_is_not_near(given, near):
    found = recommend(compared("FFFF", "TTTT", **given), {})
    assert (found.configuration == "TTTT", found.near) == (near, 1 + near)
    assert found.sharing == 2
    if not near:
        more = f"its mean loss is {given['step']:.4f} higher, its accuracy 80.0% where this one has 90.0%."
        assert f"The best row that takes nothing from the mini-batch is bln TTTT frozen: {more}" in found.words


def test_losses_below_zero_are_near_by_their_size():
    """As of a score of one's own: the logarithm of a density."""
    made = compared("FFFF", "TTTT")
    below = tuple(row.model_copy(update={"loss": row.loss - 3}) for row in made.rows)
    assert recommend(made.model_copy(update={"rows": below}), {}).configuration == "TTTT"


def test_what_is_given_away_is_said_of_one_network_too():
    found = recommend(compared("FFFF", "FTTT", "TTFF"), {})
    assert (found.loss_above_best, found.loss_to_best) == pytest.approx((0.02, 0.025))
    assert "Its mean loss is 0.0200 above the lowest, at most 0.0250 (95 %)." in found.words
    assert recommend(compared("TTTT", "FTTT"), {}).loss_to_best == 0
    assert "0.0100 above the lowest" in recommend(compared("FFFF", "TTTT", seeds=1), {}).words


def test_population_values_of_each_place_leave_an_answer_dependent_on_its_place():
    made = compared("FFFF", "TTTT", "TTFF")
    assert recommend(made, {}).configuration == "TTTT"
    found = recommend(made, {}, per_slot=True)
    assert (found.configuration, found.deterministic, found.batch_sizes) == ("TTFF", True, None)
    assert recommend(compared("TTTT"), {}, per_slot=True).batch_sizes == (25,)


@pytest.mark.parametrize(
    ("made", "confidence", "words"),
    [
        (compared("TTTT", "FFFF", apart=("FFFF",)), Confidence.CLEAR, "others are told to be worse"),
        (compared("TTTT", "FFFF", apart=("FFFF",), left_out=1), Confidence.SHARED, "lowest mean loss"),
        (compared("FFFF", "TTTT"), Confidence.SHARED, "at most 0.0150 (95 %)"),
        (compared("TTTT", "FFFF", seeds=1), Confidence.ONE_SEED, "One seed: this is about that one network."),
    ],
)
def test_confidence_is_put_into_words(made, confidence, words):
    found = recommend(made, {})
    assert found.confidence is confidence
    assert words in found.words
    assert found.words.startswith(f"Use bln {found.configuration}")


def test_a_group_without_a_deterministic_row_says_so():
    assert "none of them is deterministic" in recommend(compared("FFFF", "FTTT"), {}).words


def test_a_deterministic_row_is_valid_at_every_size():
    assert recommend(compared("TTTT"), {}).batch_sizes is None


def test_other_sizes_count_where_seeds_do_not_tell_the_row_from_the_best_there():
    def at(size, own, other):
        key = "bln", "", InferenceConfiguration("FTTT"), FROZEN, size
        rival = "bln", "", InferenceConfiguration("FFFF"), None, size
        return {key: dict(enumerate(own)), rival: dict(enumerate(other))}

    sizes = {
        1: at(1, [0.9, 0.91, 0.92], [0.1, 0.11, 0.13]),
        5: at(5, [0.3, 0.2, 0.1], [0.2, 0.21, 0.15]),
        100: at(100, [0.1, 0.1, 0.1], [0.2, 0.2, 0.2]),
        150: at(150, [0.9, 30.0, 0.2], [0.3, 0.31, 0.3]),  # scatters too much for anything to be told
        160: at(160, [0.9, 0.95], [1.0, 1.1, 1.0]),  # diverged under one seed
        170: at(170, [0.2, 0.21, 0.19], [0.1]),  # the other one did, all but once
        200: {},
    }
    found = recommend(compared("FTTT", "FFFF", apart=("FFFF",)), sizes)
    assert found.batch_sizes == (5, 25, 100, 170)
    assert "mini-batches of 5, 25, 100, 170." in found.words


@pytest.mark.parametrize(("ahead", "better"), [(0.005, 1), (0.0, 0)])
def test_a_row_kept_as_it_is_says_how_many_are_significantly_better(ahead, better):
    """The rule takes a deterministic row a little above the best, even where that difference is no chance."""
    generator = np.random.default_rng(0)
    losses = generator.exponential(1, 3000)
    rows = np.stack([losses, losses + ahead + 0.001 * generator.normal(size=3000)])[None].astype(np.float32)
    candidates = [
        ("network", "", InferenceConfiguration("FFFF"), None, 8),
        ("network", "", InferenceConfiguration("TTFF"), PopulationEstimate.MOVING, 8),
    ]
    comparison = compare(candidates, OutcomeTable(rows, np.ones(rows.shape, bool)), Split.VALIDATION)
    found = recommend(comparison, {}, as_is=candidates[1])
    assert found.candidate == candidates[1]
    assert (found.baseline.gain, found.baseline.significantly_better) == (0, better)
