"""Evaluations are computed from outcomes; the identity of a leaderboard row."""

from __future__ import annotations

import numpy as np

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import PopulationEstimate, Split
from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.core.records import Evaluation, EvaluationKey, RowKey
from bln_search.core.states import EvaluationState

KEY = EvaluationKey(InferenceConfiguration("FFFF"), None, 25, Split.TEST)


def outcomes(losses):
    return ExampleOutcomes(np.array(losses, np.float32), np.array([True] * len(losses)))


def test_means_are_computed_in_double_precision():
    losses = np.full(10_000_000, 0.1, np.float32)
    evaluation = Evaluation.from_outcomes(KEY, ExampleOutcomes(losses, np.zeros(len(losses), np.bool_)))
    assert abs(evaluation.loss - float(np.float32(0.1))) < 1e-12


def test_infinite_loss_is_diverged_with_a_reason():
    for loss in (np.nan, np.inf):
        evaluation = Evaluation.from_outcomes(KEY, outcomes([1.0, loss, 2.0]))
        assert evaluation.state is EvaluationState.DIVERGED
        assert evaluation.loss is None
        assert evaluation.accuracy is None
        assert "1 of 3 examples" in evaluation.reason


def row_key(code, estimate):
    key = EvaluationKey(InferenceConfiguration(code), estimate, 25, Split.TEST)
    return RowKey.of_evaluation("bln", '{"x": 1}', key)


def test_key_omits_the_split():
    code = InferenceConfiguration("TTFF")
    assert row_key("TTFF", PopulationEstimate.FROZEN) == RowKey("bln", '{"x": 1}', code, PopulationEstimate.FROZEN, 25)


def test_label_names_arm_configuration_and_estimate():
    assert row_key("TTFF", PopulationEstimate.FROZEN).arm_configuration_and_estimate_label == "bln TTFF frozen"
    assert row_key("FFFF", None).arm_configuration_and_estimate_label == "bln FFFF"
