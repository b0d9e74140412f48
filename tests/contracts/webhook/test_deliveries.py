"""Messages about ends of studies: one for each end, claimed by one process at a time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bln_search.core.states import DeliveryState, StudyState
from bln_search.ranking.analysis import Analysis
from bln_search.storage.webhook.deliveries import ANALYSIS_PATIENCE, ATTEMPT_DURATION
from tests.contracts.queued_studies import all_are_alive, study
from tests.support.external_results import submit
from tests.support.service_world import RUNNER, complete_study

pytestmark = pytest.mark.usefixtures("wait")


@pytest.fixture
def deliveries(ledger):
    ledger.deliveries.start_announcing()
    return ledger.deliveries


def cancel_new_study(ledger, name="study"):
    study_id = ledger.queue.submit_study(study(name), "ada").study_id
    ledger.queue.cancel(study_id)
    return study_id


def test_every_end_of_a_study_has_a_message_of_its_own(ledger, deliveries):
    study_id = cancel_new_study(ledger)
    ledger.queue.resume(study_id)
    ledger.studies.lease_and_start(study_id, all_are_alive, RUNNER)
    ledger.studies.fail_unless_claimed(study_id, RUNNER, "no GPU")
    last, first = deliveries.list_deliveries(study_id)
    assert (first.study_state, first.reason) == (StudyState.CANCELLED, None)
    assert (last.study_state, last.reason) == (StudyState.FAILED, "no GPU")
    assert first.message_id != last.message_id
    assert {delivery.state for delivery in (first, last)} == {DeliveryState.WAITING}


def test_pause_release_and_interruption_are_no_ends(ledger, deliveries):
    paused = ledger.queue.submit_study(study("paused"), "ada").study_id
    ledger.queue.pause(paused)
    interrupted = ledger.studies.store_study_once(study("interrupted"))
    ledger.studies.lease_and_start(interrupted, all_are_alive, RUNNER)
    assert ledger.studies.finish_run(interrupted, runner=RUNNER) is StudyState.INTERRUPTED
    assert [deliveries.list_deliveries(study_id) for study_id in (paused, interrupted)] == [[], []]


def test_ends_before_the_webhook_and_after_it_are_not_announced(ledger):
    before = cancel_new_study(ledger, "before")
    ledger.deliveries.start_announcing()
    ledger.deliveries.start_announcing()
    between = cancel_new_study(ledger, "between")
    ledger.deliveries.stop_announcing()
    ledger.deliveries.stop_announcing()
    after = cancel_new_study(ledger, "after")
    counts = [len(ledger.deliveries.list_deliveries(study_id)) for study_id in (before, between, after)]
    assert counts == [0, 1, 0]


@pytest.mark.parametrize("is_external", [False, True])
def test_message_about_a_complete_study_waits_for_its_analysis_but_not_for_ever(ledger, deliveries, wait, is_external):
    study_id = submit(ledger).study_id if is_external else complete_study(ledger, "done", "ada")
    assert deliveries.claim_due_delivery() is None
    results = ledger.analyses.count_trials_with_result(study_id)
    ledger.analyses.save(study_id, results - 1, Analysis())
    assert deliveries.claim_due_delivery() is None
    ledger.analyses.save(study_id, results, Analysis())
    assert deliveries.claim_due_delivery().study_id == study_id
    other = complete_study(ledger, "another", "ada")
    assert deliveries.claim_due_delivery() is None
    wait(ANALYSIS_PATIENCE)
    assert other in [deliveries.claim_due_delivery().study_id for _ in range(2)]


def test_attempt_without_a_result_is_repeated_with_the_same_message(ledger, deliveries, wait):
    cancel_new_study(ledger)
    first = deliveries.claim_due_delivery()
    deliveries.store_body(first, "{}")
    assert deliveries.claim_due_delivery() is None
    wait(ATTEMPT_DURATION)
    second = deliveries.claim_due_delivery()
    assert (second.message_id, second.body, second.attempts) == (first.message_id, "{}", 2)
    deliveries.record_answer(first, "HTTP 500", DeliveryState.GIVEN_UP)  # it came too late
    assert deliveries.list_deliveries(first.study_id) == [second]


def test_result_of_an_attempt_decides_whether_and_when_the_next_follows(ledger, deliveries, wait):
    study_id = cancel_new_study(ledger)
    deliveries.record_answer(deliveries.claim_due_delivery(), "HTTP 500", DeliveryState.WAITING, timedelta(minutes=5))
    wait(timedelta(minutes=4))
    assert deliveries.claim_due_delivery() is None
    wait(timedelta(minutes=1))
    deliveries.record_answer(deliveries.claim_due_delivery(), "HTTP 204", DeliveryState.ACCEPTED)
    wait(timedelta(days=1))
    assert deliveries.claim_due_delivery() is None
    (delivery,) = deliveries.list_deliveries(study_id)
    assert (delivery.state, delivery.attempts, delivery.answer) == (DeliveryState.ACCEPTED, 2, "HTTP 204")
    assert delivery.attempted_at == ledger.now() - timedelta(days=1)


def test_message_of_a_deleted_study_is_deleted(ledger, deliveries):
    study_id = cancel_new_study(ledger)
    claimed = deliveries.claim_due_delivery()
    ledger.studies.delete_and_list_unneeded_files(study_id)
    deliveries.store_body(claimed, "{}")
    deliveries.record_answer(claimed, "HTTP 204", DeliveryState.ACCEPTED)
    assert deliveries.list_deliveries(study_id) == []


def test_oldest_message_and_states_are_measured(ledger, deliveries, wait):
    assert ledger.monitoring.measure_ledger_metrics().oldest_undelivered is None
    cancel_new_study(ledger, "accepted")
    deliveries.record_answer(deliveries.claim_due_delivery(), "HTTP 204", DeliveryState.ACCEPTED)
    wait(timedelta(hours=1))
    ended_at = ledger.now()
    cancel_new_study(ledger, "waits")
    wait(timedelta(hours=1))
    cancel_new_study(ledger, "waits_too")
    assert ledger.monitoring.measure_ledger_metrics().oldest_undelivered == ended_at
    counts = ledger.monitoring.count_records_by_kind_and_state()["delivery"]
    assert counts == {"waiting": 2, "accepted": 1, "given_up": 0}
    deliveries.stop_announcing()
    assert ledger.monitoring.measure_ledger_metrics().oldest_undelivered is None
