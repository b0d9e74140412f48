"""The table of transitions."""

from __future__ import annotations

import pytest

from bln_search.core.errors import TransitionError
from bln_search.core.states import TRANSITIONS, AttemptState, StudyState, TrialState, check_transition


@pytest.mark.parametrize("kind", [StudyState, TrialState, AttemptState])
def test_every_state_has_its_line_and_follows_only_its_own_kind(kind):
    assert set(TRANSITIONS[kind]) == set(kind)
    for following in TRANSITIONS[kind].values():
        assert all(isinstance(state, kind) for state in following)


@pytest.mark.parametrize("state", [TrialState.FINISHED, TrialState.DIVERGED, StudyState.COMPLETE, AttemptState.LOST])
def test_a_final_state_stays(state):
    for following in type(state):
        with pytest.raises(TransitionError, match="final"):
            check_transition(state, following)


def test_states_of_different_kinds_with_one_name_are_not_confused():
    check_transition(TrialState.RUNNING, TrialState.FINISHED)
    with pytest.raises(TransitionError):
        check_transition(TrialState.RUNNING, AttemptState.FAILED)
