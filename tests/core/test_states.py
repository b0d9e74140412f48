"""Transitions between states."""

from __future__ import annotations

import pytest

from bln_search.core.errors import StateTransitionError
from bln_search.core.states import TRANSITIONS, AttemptState, StudyState, TrialState, check_state_transition


@pytest.mark.parametrize("kind", [StudyState, TrialState, AttemptState])
def test_every_state_has_transitions_within_its_own_kind(kind):
    assert set(TRANSITIONS[kind]) == set(kind)
    for following in TRANSITIONS[kind].values():
        assert all(isinstance(state, kind) for state in following)


@pytest.mark.parametrize("state", [TrialState.FINISHED, TrialState.DIVERGED, StudyState.COMPLETE, AttemptState.LOST])
def test_final_state_allows_no_transition(state):
    for following in type(state):
        with pytest.raises(StateTransitionError, match="final"):
            check_state_transition(state, following)


def test_equal_names_of_different_kinds_are_distinguished():
    check_state_transition(TrialState.RUNNING, TrialState.FINISHED)
    with pytest.raises(StateTransitionError):
        check_state_transition(TrialState.RUNNING, AttemptState.FAILED)
