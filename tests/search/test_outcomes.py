"""The result of a point over the trials of its seeds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bln_search.core.states import TrialState
from bln_search.search.outcomes import PointOutcome, find_point_outcome
from bln_search.specs.sections.search import Objective

LOSS = (Objective.LOSS,)


@dataclass
class Record:
    state: TrialState
    loss: float | None = None

    def objective_value(self, objective):
        return self.loss if objective is Objective.LOSS else 7


@pytest.mark.parametrize("state", [TrialState.WAITING, TrialState.RUNNING, TrialState.TRAINED])
def test_point_with_an_open_trial_has_no_result(state):
    assert find_point_outcome([Record(TrialState.FINISHED, 1.0), Record(state)], LOSS) is None


def test_values_are_means_over_seeds():
    records = [Record(TrialState.FINISHED, 1.0), Record(TrialState.FINISHED, 2.0)]
    outcome = find_point_outcome(records, (Objective.LOSS, Objective.PARAMETERS))
    assert outcome == PointOutcome(TrialState.FINISHED, [1.5, 7])


def test_unmeasured_objective_has_a_reason():
    outcome = find_point_outcome([Record(TrialState.FINISHED, 1.0), Record(TrialState.FINISHED)], LOSS)
    assert (outcome.state, outcome.values, outcome.reason) == (
        TrialState.FINISHED,
        None,
        "an objective has no value",
    )


def test_pruned_and_diverged_trials_decide_before_failed_ones():
    failed, diverged, pruned = (Record(state) for state in (TrialState.FAILED, TrialState.DIVERGED, TrialState.PRUNED))
    assert find_point_outcome([failed, diverged, pruned], LOSS) == PointOutcome(TrialState.PRUNED)
    assert find_point_outcome([failed, diverged], LOSS) == PointOutcome(TrialState.DIVERGED, reason="diverged")
    assert find_point_outcome([Record(TrialState.FINISHED, 1.0), failed], LOSS).state is TrialState.FAILED


def test_failed_trial_decides_where_the_search_waits_for_its_result():
    records = [Record(TrialState.FAILED), Record(TrialState.DIVERGED)]
    assert find_point_outcome(records, LOSS, waits_for_failed=True).state is TrialState.FAILED
