"""Metrics of rows under conditions, their mean and worst value; they do not rank."""

from __future__ import annotations

import numpy as np
import pytest

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.grouping import group_losses_by_row
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.ranking.study_effects import group_values_by_split_and_metric

CONDITIONS = ("fog-3", "dim", "noise")
SEEDS = (0, 1, 2)
SPLITS = (Split.VALIDATION, Split.TEST)
CODES = ("TTFF", "FFFF")
RNG = np.random.default_rng(0)
LOSSES = RNG.random((2, 2, 4, 3))
"""By row, split, condition (the clean images first) and seed."""
ACCURACIES = RNG.random((2, 2, 4, 3))


def scored(row, split, condition, seed, state=EvaluationState.MEASURED):
    key = EvaluationKey(InferenceConfiguration(CODES[row]), None, 25, SPLITS[split], ("", *CONDITIONS)[condition])
    place = row, split, condition, seed
    if state is not EvaluationState.MEASURED:
        return TrialEvaluation("bln", SEEDS[seed], Evaluation(key, state, 9, reason="because"))
    loss, accuracy = float(LOSSES[place]), float(ACCURACIES[place])
    return TrialEvaluation("bln", SEEDS[seed], Evaluation(key, state, 9, loss, accuracy))


def all_scored(conditions=range(4)):
    return [scored(*place) for place in np.ndindex(LOSSES.shape) if place[2] in conditions]


def rows_of(board):
    return {str(row.configuration): row for row in board.rows}


@pytest.mark.parametrize("split", range(2))
@pytest.mark.parametrize("row", range(2))
def test_metrics_equal_numpy(row, split):
    metrics = rows_of(build_leaderboard_from_evaluations(all_scored()))[CODES[row]].conditions
    losses, accuracies = LOSSES[row, split, 1:], ACCURACIES[row, split, 1:]
    for name, by_seed in zip(CONDITIONS, losses, strict=True):
        value = metrics.by_condition[name][SPLITS[split]].loss
        assert (value.mean, value.deviation) == pytest.approx((by_seed.mean(), by_seed.std(ddof=1)))
    mean, worst = metrics.mean[SPLITS[split]], metrics.worst[SPLITS[split]]
    assert (mean.loss.mean, mean.loss.deviation) == pytest.approx((losses.mean(), losses.mean(0).std(ddof=1)))
    assert mean.accuracy.mean == pytest.approx(accuracies.mean())
    highest = losses[losses.mean(1).argmax()]
    assert (worst.loss.mean, worst.loss.deviation) == pytest.approx((highest.mean(), highest.std(ddof=1)))
    assert worst.accuracy.mean == pytest.approx(accuracies.mean(1).min())
    assert tuple(metrics.metrics_by_condition_or_summary) == (*CONDITIONS, "mean", "worst")


def test_conditions_do_not_change_ranks_and_clean_metrics():
    clean, board = build_leaderboard_from_evaluations(all_scored([0])), build_leaderboard_from_evaluations(all_scored())
    assert [(row.rank, row.key, row.metrics) for row in board.rows] == [
        (row.rank, row.key, row.metrics) for row in clean.rows
    ]
    assert (clean.condition_names, board.condition_names) == ((), CONDITIONS)
    assert clean.rows[0].conditions is None


def test_summary_is_missing_without_a_value_of_each_condition():
    evaluations = [item for item in all_scored() if item.evaluation.key.condition != "dim" or item.seed]
    evaluations += [scored(0, 0, 2, 0, EvaluationState.DIVERGED), scored(0, 1, 2, 0)]
    row = rows_of(build_leaderboard_from_evaluations(evaluations))["TTFF"]
    assert row.rank is not None
    assert set(row.conditions.by_condition["dim"]) == {Split.TEST}
    assert set(row.conditions.mean) == set(row.conditions.worst) == {Split.TEST}


def test_row_that_is_not_measured_has_no_metrics_under_conditions():
    evaluations = [item for item in all_scored() if item.evaluation.key.condition or item.seed]
    evaluations += [scored(0, split, 0, 0, EvaluationState.DIVERGED) for split in range(2)]
    row = rows_of(build_leaderboard_from_evaluations(evaluations))["TTFF"]
    assert (row.state, row.conditions) == (EvaluationState.DIVERGED, None)


def test_repeated_seed_under_a_condition_is_rejected():
    with pytest.raises(ValueError, match="2 evaluations under seed 1 on test"):
        build_leaderboard_from_evaluations([*all_scored(), scored(1, 1, 2, 1)])


def test_statistics_read_clean_evaluations_only():
    for split in SPLITS:
        assert group_losses_by_row(all_scored(), split) == group_losses_by_row(all_scored([0]), split)
    assert group_values_by_split_and_metric(all_scored(), [("bln", "")]) == group_values_by_split_and_metric(
        all_scored([0]), [("bln", "")]
    )
