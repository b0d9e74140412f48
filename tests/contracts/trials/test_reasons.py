"""Reasons with texts of user code are stored on both databases, however they look and wherever they come from."""

from __future__ import annotations

import pytest

from bln_search.core.reasons import MAX_REASON_CHARACTERS, limit_reason
from bln_search.core.states import FailureClass, TrialState
from tests.contracts.trained_studies import STUDY, begin_study

HOSTILE = ["lone \ud800 surrogate", "NUL \0 inside", "x" * 3_000_000, "😀" * 10_000 + "\udfff\0"]


@pytest.mark.parametrize("reason", HOSTILE, ids=["surrogate", "nul", "long", "all"])
def test_trial_attempt_event_and_study_have_the_reason(ledger, reason):
    study_id, (trial, *_) = begin_study(ledger)
    token = ledger.attempts.claim_trial(trial.id, "w/1/0")
    ledger.attempts.record_failure(token, FailureClass.USER_ERROR, reason, again=False)
    stored = ledger.trials.list_trials(study_id)[0]
    assert (stored.state, stored.reason) == (TrialState.FAILED, limit_reason(reason))
    assert len(stored.reason) <= MAX_REASON_CHARACTERS
    event = ledger.events.list_events(study_id)[-1]
    assert (event.kind, event.data["reason"]) == ("attempt_failed", limit_reason(reason))


@pytest.mark.parametrize("reason", HOSTILE[3:], ids=["all"])
def test_failed_study_has_the_reason(ledger, reason):
    study_id = ledger.studies.store_study_once(STUDY)
    ledger.studies.fail_unless_claimed(study_id, "host/1/0", reason)
    assert ledger.studies.get(study_id).reason == limit_reason(reason)


@pytest.mark.parametrize("reason", HOSTILE[3:], ids=["all"])
def test_diverged_trial_has_the_reason_in_all_its_rows(ledger, reason):
    study_id, (trial, *_) = begin_study(ledger)
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(trial.id, "w/1/0"), reason)
    records = ledger.results.list_clean_evaluations(study_id)
    assert {record.evaluation.reason for record in records} == {f"seed 0: {limit_reason(reason)}"}
