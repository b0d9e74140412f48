"""The generalization gap of a row: loss minus training loss, seed by seed. The training split does not rank."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.study_effects import group_values_by_split_and_metric

SPLITS = (Split.VALIDATION, Split.TEST, Split.TRAIN)
CODES = ("TTFF", "FFFF")
LOSSES = np.random.default_rng(0).random((2, 3, 4))
"""By row, split and seed."""


def evaluation(row, split, seed, loss=None, state=EvaluationState.MEASURED):
    key = EvaluationKey(InferenceConfiguration(CODES[row]), None, 25, SPLITS[split])
    value = float(LOSSES[row, split, seed]) if loss is None else loss
    if state is not EvaluationState.MEASURED:
        return TrialEvaluation("bln", seed, Evaluation(key, state, 9, reason="because"))
    return TrialEvaluation("bln", seed, Evaluation(key, state, 9, value, 0.5))


def all_evaluations(splits=range(3)):
    return [evaluation(*place) for place in np.ndindex(LOSSES.shape) if place[1] in splits]


def rows_of(board):
    return {str(row.configuration): row for row in board.rows}


@pytest.mark.parametrize("row", range(2))
@pytest.mark.parametrize("split", range(2))
def test_gap_equals_numpy(row, split):
    gaps = LOSSES[row, split] - LOSSES[row, 2]
    value = rows_of(build_leaderboard_from_evaluations(all_evaluations()))[CODES[row]].gaps[SPLITS[split]]
    assert (value.mean, value.deviation) == pytest.approx((gaps.mean(), gaps.std(ddof=1)))


def test_training_split_changes_no_rank():
    plain = build_leaderboard_from_evaluations(all_evaluations(range(2)))
    board = build_leaderboard_from_evaluations(
        [*all_evaluations(range(2)), *(evaluation(1, 2, seed, loss=-9.0) for seed in range(4))]
    )
    assert [(row.rank, row.key) for row in board.rows] == [(row.rank, row.key) for row in plain.rows]
    assert (plain.has_train_metrics, board.has_train_metrics) == (False, True)
    assert all(not row.gaps for row in plain.rows)


def test_row_that_is_not_measured_on_a_split_has_no_gap_there():
    evaluations = [item for item in all_evaluations() if item.seed]
    row = rows_of(
        build_leaderboard_from_evaluations(
            [
                *evaluations,
                *(evaluation(0, split, 0) for split in (0, 2)),
                evaluation(0, 1, 0, state=EvaluationState.DIVERGED),
            ]
        )
    )["TTFF"]
    assert set(row.gaps) == {Split.VALIDATION}
    row = rows_of(
        build_leaderboard_from_evaluations(
            [
                *evaluations,
                evaluation(0, 0, 0),
                evaluation(0, 1, 0),
                evaluation(0, 2, 0, state=EvaluationState.UNDEFINED),
            ]
        )
    )["TTFF"]
    assert row.rank is not None
    assert not row.gaps


def test_effects_leave_the_training_split_out():
    values = group_values_by_split_and_metric(all_evaluations(), [("bln", "")])
    assert {split for split, _ in values} == {Split.VALIDATION, Split.TEST}
