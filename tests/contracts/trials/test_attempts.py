"""Attempts of trials: claims, leases, results and failures."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import func, select

from bln_search.core.errors import StaleAttemptError, StudyBusyError
from bln_search.core.records import EpochRecord
from bln_search.core.states import AttemptState, EvaluationState, FailureClass, TrialState
from bln_search.specs import list_planned_configurations_and_estimates
from bln_search.storage.engine import read_session
from bln_search.storage.leases import LEASE
from bln_search.storage.tables import AttemptRow, EvaluationRow
from tests.contracts.trained_studies import CHECKPOINT, STUDY, begin_study, evaluations, no_worker_is_alive


def test_finished_trial_is_read_as_it_was_recorded(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 1.5)])
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.finish_trial(token, evaluations())
    records = ledger.results.list_clean_evaluations(study_id)
    assert [record.evaluation for record in records] == list(evaluations())
    assert {(record.arm, record.seed) for record in records} == {("bln", 0)}
    outcomes = dict(ledger.results.iter_outcomes([record.id for record in records]))
    outcomes_read = outcomes[records[1].id]
    np.testing.assert_array_equal(outcomes_read.losses, evaluations()[1].outcomes.losses)
    np.testing.assert_array_equal(outcomes_read.correct, evaluations()[1].outcomes.correct)
    assert records[-1].id not in outcomes
    assert ledger.trials.list_trials(study_id)[0].checkpoint == CHECKPOINT
    events = ledger.events.list_events(study_id)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events] == [
        "study_accepted",
        "study_running",
        "attempt_started",
        "epoch",
        "trained",
        "trial_finished",
    ]
    assert ledger.events.list_events(study_id, after=4)[0].kind == "trained"
    assert events[3].data["validation_loss"] == 0.7
    assert events[0].at.tzinfo is not None


def test_epochs_have_test_values_only_where_they_were_evaluated(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    with_test = EpochRecord(2, 0.4, 0.7, 0.6, 0.8, 1.5, 0.65, 0.75)
    ledger.attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 1.5), with_test])
    first, second = (event.data for event in ledger.events.list_events(study_id) if event.kind == "epoch")
    assert {"test_loss", "test_accuracy"}.isdisjoint(first)
    assert (second["test_loss"], second["test_accuracy"], second["validation_loss"]) == (0.65, 0.75, 0.6)


def test_diverged_trial_counts_for_all_its_rows(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    ledger.attempts.record_divergence(ledger.attempts.claim_trial(trial.id, "host/1/0"), "the loss is not finite")
    records = ledger.results.list_clean_evaluations(study_id)
    assert len(records) == 2 * len(list_planned_configurations_and_estimates(trial.spec))
    assert {record.evaluation.state for record in records} == {EvaluationState.DIVERGED}
    assert "the loss is not finite" in records[0].evaluation.reason


def test_a_trial_is_claimed_once(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    trial = ledger.trials.list_claimable_trials(study_id)[0]
    tokens, rejections = [], []

    def claim():
        try:
            tokens.append(ledger.attempts.claim_trial(trial.id, "host/1/0"))
        except StudyBusyError:
            rejections.append(1)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(tokens), len(rejections)) == (1, 7)


def test_late_report_is_rejected_and_writes_nothing(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    trial = ledger.trials.list_claimable_trials(study_id)[0]
    old_token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.studies.lease_and_start(study_id, no_worker_is_alive)
    token = ledger.attempts.claim_trial(trial.id, "host/2/0")
    for report in (
        lambda: ledger.attempts.record_checkpoint(old_token, CHECKPOINT),
        lambda: ledger.attempts.finish_trial(old_token, evaluations()),
        lambda: ledger.attempts.record_epochs(old_token, [EpochRecord(1, 0, 0, 0, 0, 0)]),
        lambda: ledger.attempts.record_divergence(old_token, "x"),
        lambda: ledger.attempts.record_failure(old_token, FailureClass.USER_ERROR, "x", again=False),
    ):
        with pytest.raises(StaleAttemptError, match="rejected"):
            report()
    assert ledger.results.list_clean_evaluations(study_id) == []
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    ledger.attempts.finish_trial(token, evaluations())
    assert len(ledger.results.list_clean_evaluations(study_id)) == len(evaluations())


def test_trained_trial_of_a_dead_worker_needs_evaluation_only(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    trial = ledger.trials.list_claimable_trials(study_id)[0]
    ledger.attempts.record_checkpoint(ledger.attempts.claim_trial(trial.id, "host/1/0"), CHECKPOINT)
    ledger.studies.lease_and_start(study_id, no_worker_is_alive)
    open_trial = ledger.trials.list_claimable_trials(study_id)[0]
    assert open_trial.id == trial.id
    assert open_trial.checkpoint == CHECKPOINT
    token = ledger.attempts.claim_trial(trial.id, "host/2/0")
    ledger.attempts.finish_trial(token, evaluations())
    assert ledger.trials.list_trials(study_id)[0].state is TrialState.FINISHED


def test_a_heartbeat_extends_the_lease(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    token = ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(study_id)[0].id, "host/77/0")
    ledger.database.clock = lambda: datetime.now(UTC) + LEASE - timedelta(seconds=1)
    ledger.attempts.record_heartbeats([token])
    ledger.database.clock = lambda: datetime.now(UTC) + LEASE + timedelta(seconds=1)
    with pytest.raises(StudyBusyError):
        ledger.studies.lease_and_start(study_id, lambda worker: True)


def test_failed_attempt_is_retried_or_ends_the_trial(ledger):
    study_id, (trial, *_) = begin_study(ledger)
    for failure, reason, again in (
        (FailureClass.INFRASTRUCTURE, "died", True),
        (FailureClass.USER_ERROR, "no data", False),
    ):
        token = ledger.attempts.claim_trial(trial.id, "w/1/0")
        ledger.attempts.record_failure(token, failure, reason, again=again)
    failed = ledger.trials.list_trials(study_id)[0]
    assert (failed.state, failed.reason) == (TrialState.FAILED, "no data")
    assert len(ledger.trials.list_claimable_trials(study_id)) == 3
    ledger.studies.lease_and_start(study_id, no_worker_is_alive)
    assert len(ledger.trials.list_claimable_trials(study_id)) == 4


def test_released_trials_wait_again(ledger):
    _, trials = begin_study(ledger)
    ledger.attempts.release_attempts(ledger.attempts.claim_trials([trial.id for trial in trials[:2]], "w/1/0"))
    assert ledger.studies.get_by_name_or_id("study").trials == {TrialState.WAITING: 4}
    with read_session(ledger.database.engine) as session:
        assert set(session.scalars(select(AttemptRow.state))) == {AttemptState.LOST}


def test_evaluations_are_stored_atomically(ledger):
    study_id = ledger.studies.store_study_once(STUDY)
    token = ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(study_id)[0].id, "w/1/0")
    ledger.attempts.record_checkpoint(token, CHECKPOINT)
    duplicated = (*evaluations(), evaluations()[0])
    with pytest.raises(Exception, match=r"(?i)unique"):
        ledger.attempts.finish_trial(token, duplicated)
    with read_session(ledger.database.engine) as session:
        assert session.scalar(select(func.count()).select_from(EvaluationRow)) == 0
    ledger.attempts.finish_trial(token, evaluations())
