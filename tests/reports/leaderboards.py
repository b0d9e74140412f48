"""A leaderboard of three rows; one of them is undefined."""

from __future__ import annotations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.records import Evaluation, EvaluationKey
from bln_search.core.states import EvaluationState
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation


def make_board(ranked_on=Split.VALIDATION):
    evaluations = []
    for code, loss in (("TTFF", 0.5), ("FFFF", 0.25), ("FTFF", None)):
        estimate = None if code == "FFFF" else PopulationEstimate.FROZEN
        for split in (Split.VALIDATION, Split.TEST):
            for seed in (0, 1):
                key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split)
                result = (
                    Evaluation.make_undefined(key, "no value, as m = 1")
                    if loss is None
                    else Evaluation(key, EvaluationState.MEASURED, 10, loss + seed / 8, 0.5)
                )
                evaluations.append(TrialEvaluation("bln", seed, result))
    return build_leaderboard_from_evaluations(evaluations, ranked_on)


CONDITIONS = ("fog-3", "dim_light")


def make_board_with_conditions():
    """A board of two rows under two conditions; the second row diverged under the second one."""
    evaluations = []
    for code, loss in (("TTFF", 0.5), ("FFFF", 0.25)):
        estimate = None if code == "FFFF" else PopulationEstimate.FROZEN
        for place, condition in enumerate(("", *CONDITIONS)):
            for split in (Split.VALIDATION, Split.TEST):
                for seed in (0, 1):
                    key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split, condition)
                    value = loss + seed / 8 + place + (split is Split.TEST) / 16
                    result = Evaluation(key, EvaluationState.MEASURED, 10, value, 0.5 / (1 + place))
                    if (code, place) == ("TTFF", 2):
                        result = Evaluation(key, EvaluationState.DIVERGED, 10, reason="not finite")
                    evaluations.append(TrialEvaluation("bln", seed, result))
    return build_leaderboard_from_evaluations(evaluations)


GAP_LOSSES = {Split.VALIDATION: (0.5, 0.75), Split.TEST: (0.625, 1.0), Split.TRAIN: (0.25, 0.3125)}
"""Losses of TTFF by split and seed; those of FFFF are twice as high."""


def make_board_with_train_split():
    """A board of two rows that were evaluated on the training split too, and of an undefined one."""
    evaluations = []
    for code, factor in (("TTFF", 1), ("FFFF", 2), ("FTFF", None)):
        estimate = None if code == "FFFF" else PopulationEstimate.FROZEN
        for split, losses in GAP_LOSSES.items():
            key = EvaluationKey(InferenceConfiguration(code), estimate, 25, split)
            for seed, loss in enumerate(losses):
                result = (
                    Evaluation.make_undefined(key, "no value, as m = 1")
                    if factor is None
                    else Evaluation(key, EvaluationState.MEASURED, 10, factor * loss, 0.5)
                )
                evaluations.append(TrialEvaluation("bln", seed, result))
    return build_leaderboard_from_evaluations(evaluations)
