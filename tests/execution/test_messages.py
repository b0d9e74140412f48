"""The end of a trial is logged in words: what it gave, or why it gave nothing."""

from __future__ import annotations

import pytest

from bln_search.core.states import FailureClass
from bln_search.execution.messages import (
    TERMINAL_MESSAGES,
    EvaluationDone,
    PhaseProgress,
    TaskFailed,
    TrainingDiverged,
    TrainingPruned,
    TrialPhase,
    describe_trial_end,
)

ENDS = {
    TrainingDiverged("the loss of step 3 is nan"): "the loss of step 3 is nan",
    TrainingPruned(7): "7",
    EvaluationDone(()): "0 evaluations",
    TaskFailed(FailureClass.USER_ERROR, "ZeroDivisionError: oh"): "ZeroDivisionError: oh",
}


@pytest.mark.parametrize("message", ENDS, ids=lambda message: type(message).__name__)
def test_every_end_is_described_with_its_facts(message):
    assert ENDS[message] in describe_trial_end(message)
    assert type(message).__name__ not in describe_trial_end(message)


def test_only_messages_that_end_a_trial_are_described():
    assert {type(message) for message in ENDS} == set(TERMINAL_MESSAGES)
    assert describe_trial_end(PhaseProgress(TrialPhase.TRAINING, 1, 2)) is None
