"""The order of rows: loss, then accuracy, on the deciding split; unmeasured rows are not ranked."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bln_search.core.configuration import InferenceConfiguration, all_configurations
from bln_search.core.enums import Split
from bln_search.core.method import Method
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import SeedShortfall, build_leaderboard_from_evaluations
from bln_search.ranking.row_choice import RowQuery
from bln_search.ranking.row_results import TrialEvaluation

WORDS = [str(configuration) for configuration in all_configurations(Method.BLN)]


def measured(code, loss, accuracy=0.5, *, seed=0, split=Split.VALIDATION, arm="bln"):
    key = EvaluationKey(InferenceConfiguration(code), None, 25, split)
    return TrialEvaluation(arm, seed, Evaluation(key, EvaluationState.MEASURED, 10, loss, accuracy))


def without(code, state, *, seed=0, split=Split.VALIDATION):
    key = EvaluationKey(InferenceConfiguration(code), None, 25, split)
    return TrialEvaluation("bln", seed, Evaluation(key, state, 0, reason="because"))


def codes(board):
    return [str(row.configuration) for row in board.rows]


def test_lower_loss_first_then_higher_accuracy():
    board = build_leaderboard_from_evaluations(
        [measured("TTTT", 2.0, 0.9), measured("FFFF", 1.0, 0.1), measured("TFTF", 1.0, 0.2)]
    )
    assert codes(board) == ["TFTF", "FFFF", "TTTT"]
    assert [row.rank for row in board.rows] == [1, 2, 3]


def test_equal_rows_share_a_rank():
    board = build_leaderboard_from_evaluations([measured("TTTT", 1.0), measured("FFFF", 1.0), measured("TFTF", 2.0)])
    assert [row.rank for row in board.rows] == [1, 1, 3]


def test_test_loss_ranks_only_on_request():
    scored = [measured(code, loss) for code, loss in (("TTTT", 1.0), ("FFFF", 2.0))]
    scored += [measured(code, loss, split=Split.TEST) for code, loss in (("TTTT", 9.0), ("FFFF", 1.0))]
    board = build_leaderboard_from_evaluations(scored)
    assert codes(board) == ["TTTT", "FFFF"]
    assert board.rows[0].metrics[Split.TEST].loss.mean == 9.0
    assert not board.is_ranked_on_test
    on_test = build_leaderboard_from_evaluations(scored, Split.TEST)
    assert codes(on_test) == ["FFFF", "TTTT"]
    assert on_test.is_ranked_on_test


@pytest.mark.parametrize("second", [measured("FFFF", 2.0, seed=3), without("FFFF", EvaluationState.DIVERGED, seed=3)])
def test_repeated_seed_is_rejected(second):
    scored = [measured("FFFF", 1.0, seed=3), measured("FFFF", 1.0, seed=4), second]
    with pytest.raises(ValueError, match="FFFF at mini-batches of 25 has 2 evaluations under seed 3 on validation"):
        build_leaderboard_from_evaluations(scored)


def test_mean_and_deviation_over_seeds():
    losses = [1.0, 1.5, 3.0]
    board = build_leaderboard_from_evaluations([measured("FFFF", loss, seed=seed) for seed, loss in enumerate(losses)])
    figures = board.rows[0].metrics[Split.VALIDATION].loss
    assert figures.mean == pytest.approx(statistics.mean(losses))
    assert figures.deviation == pytest.approx(statistics.stdev(losses))
    assert board.rows[0].seeds == 3


def test_row_that_lacks_seeds_is_not_ranked():
    scored = [measured("TTTT", 0.1)] + [measured("FFFF", 1.0, seed=seed) for seed in range(3)]
    board = build_leaderboard_from_evaluations(scored)
    assert [(str(row.configuration), row.rank) for row in board.rows] == [("FFFF", 1), ("TTTT", None)]
    assert board.rows[1].missing_seeds == SeedShortfall(Split.VALIDATION, evaluated=1, required=3)
    assert build_leaderboard_from_evaluations(scored, seeds=5).best_row is None


def test_divergence_on_test_does_not_change_the_order():
    scored = [measured("TTTT", 1.0), measured("FFFF", 2.0), measured("FFFF", 2.0, split=Split.TEST)]
    board = build_leaderboard_from_evaluations([*scored, without("TTTT", EvaluationState.DIVERGED, split=Split.TEST)])
    assert [(str(row.configuration), row.rank) for row in board.rows] == [("TTTT", 1), ("FFFF", 2)]
    assert Split.TEST not in board.rows[0].metrics


def test_row_without_the_deciding_split_is_not_ranked():
    board = build_leaderboard_from_evaluations([measured("TTTT", 1.0, split=Split.TEST), measured("FFFF", 2.0)])
    assert [(str(row.configuration), row.rank) for row in board.rows] == [("FFFF", 1), ("TTTT", None)]


@pytest.mark.parametrize("state", [EvaluationState.UNDEFINED, EvaluationState.DIVERGED])
def test_undefined_or_diverged_row_is_last_without_rank(state):
    board = build_leaderboard_from_evaluations(
        [measured("FFFF", 5.0), measured("TTTT", 0.1), without("TTTT", state, seed=1)]
    )
    assert codes(board) == ["FFFF", "TTTT"]
    assert board.rows[1].rank is None
    assert board.rows[1].reason == "because"
    assert board.rows[1].metrics == {}


def test_undefined_rows_follow_diverged_rows():
    board = build_leaderboard_from_evaluations(
        [without("FFFF", EvaluationState.UNDEFINED), without("TTTT", EvaluationState.DIVERGED)]
    )
    assert codes(board) == ["TTTT", "FFFF"]
    assert board.best_row is None


def test_no_evaluations_give_an_empty_leaderboard():
    assert build_leaderboard_from_evaluations([]).rows == ()
    assert build_leaderboard_from_evaluations([]).best_row is None


@given(
    st.dictionaries(st.sampled_from(WORDS), st.tuples(st.floats(0, 10), st.floats(0, 1)) | st.none(), min_size=1),
    st.randoms(),
)
def test_order_does_not_depend_on_the_input_order(figures, random):
    scored = [
        measured(code, *pair) if pair else without(code, EvaluationState.UNDEFINED) for code, pair in figures.items()
    ]
    board = build_leaderboard_from_evaluations(scored)
    random.shuffle(scored)
    assert build_leaderboard_from_evaluations(scored) == board
    assert sorted(codes(board)) == sorted(figures)
    ranked = [row for row in board.rows if row.rank]
    assert ranked == list(board.rows[: len(ranked)])
    pairs = [(row.metrics[Split.VALIDATION].loss.mean, -row.metrics[Split.VALIDATION].accuracy.mean) for row in ranked]
    assert pairs == sorted(pairs)


def test_points_that_are_alike_in_four_digits_are_separate_rows_with_their_own_labels():
    """Two learning rates that differ in the eighth digit are two points, not two seeds of one."""
    points = [json.dumps({"training.learning_rate": rate}) for rate in (0.0500001, 0.0500002)]
    board = build_leaderboard_from_evaluations(
        replace(measured("FFFF", seed=0, loss=1.0), point=point) for point in points
    )
    assert [row.point for row in board.rows] == points
    labels = [row.parameters for row in board.rows]
    assert labels == ["learning_rate=0.0500001", "learning_rate=0.0500002"]
    assert [row.parameters for row in board.restrict_to_rows(board.rows[:1]).rows] == labels[:1]
    for position, label in enumerate(labels):
        assert [row.point for row in board.rows if RowQuery(parameters=label).matches(row)] == [points[position]]
    assert all(RowQuery(parameters="learning_rate=0.05").matches(row) for row in board.rows)
    assert [row.seeds for row in board.rows] == [1, 1]
