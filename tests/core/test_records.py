"""Evaluations are computed from outcomes; infinite losses have no mean."""

from __future__ import annotations

import numpy as np

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import Evaluation, EvaluationKey, ExampleOutcomes
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
