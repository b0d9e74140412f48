"""Requests to pause, cancel, resume and delete studies of the queue."""

from __future__ import annotations

import pytest

from bln_search.core.errors import StateTransitionError, StudyBusyError, StudyLeaseLostError, UnknownStudyError
from bln_search.core.states import StopRequest, StudyState
from tests.contracts.queued_studies import CAP, all_are_alive, event_kinds, find_study, none_is_alive, study


@pytest.mark.parametrize(
    ("stop_request", "state"), [(StopRequest.PAUSE, StudyState.PAUSED), (StopRequest.CANCEL, StudyState.CANCELLED)]
)
class TestRequests:
    def test_waiting_study_is_stopped_at_once_and_resumed(self, ledger, stop_request, state):
        study_id = ledger.queue.submit_study(study(), "ada").study_id
        ledger.queue.request_stop(study_id, stop_request)
        ledger.queue.request_stop(study_id, stop_request)  # again is no error
        assert find_study(ledger, study_id).state == state
        assert ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP) is None
        ledger.queue.resume(study_id)
        assert ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP) == study_id

    def test_running_study_is_stopped_by_its_worker(self, ledger, stop_request, state):
        study_id = ledger.queue.submit_study(study(), "ada").study_id
        ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
        assert ledger.studies.find_stop_request(study_id, "host/1/0") is None
        ledger.queue.request_stop(study_id, stop_request)
        assert find_study(ledger, study_id).state == StudyState.RUNNING
        assert ledger.studies.find_stop_request(study_id, "host/1/0") is stop_request
        assert ledger.studies.finish_run(study_id, exhausted=False, runner="host/1/0") is state
        assert find_study(ledger, study_id).request is None

    def test_request_is_carried_out_after_the_worker_died(self, ledger, stop_request, state):
        study_id = ledger.queue.submit_study(study(), "ada").study_id
        ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
        ledger.queue.request_stop(study_id, stop_request)
        assert ledger.queue.claim_next_study("host/2/0", none_is_alive, CAP) is None
        assert find_study(ledger, study_id).state == state

    def test_pending_request_can_be_withdrawn(self, ledger, stop_request, state):
        study_id = ledger.queue.submit_study(study(), "ada").study_id
        ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
        ledger.queue.request_stop(study_id, stop_request)
        ledger.queue.resume(study_id)
        assert ledger.studies.find_stop_request(study_id, "host/1/0") is None
        assert event_kinds(ledger, study_id)[-1] == "request_withdrawn"


def test_a_complete_study_cannot_be_paused(ledger):
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
    (trial,) = ledger.trials.list_claimable_trials(study_id)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_divergence(token, "nan")
    assert ledger.studies.finish_run(study_id, runner="host/1/0") is StudyState.COMPLETE
    with pytest.raises(StateTransitionError, match="complete"):
        ledger.queue.request_stop(study_id, StopRequest.PAUSE)
    assert find_study(ledger, study_id).results == 1


def test_a_running_study_is_not_deleted(ledger):
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
    with pytest.raises(StudyBusyError, match="cancel it, or stop its command"):
        ledger.studies.delete_and_list_unneeded_files(study_id)
    ledger.studies.fail_unless_claimed(study_id, "host/1/0", "why")
    assert ledger.studies.delete_and_list_unneeded_files(study_id) == []
    with pytest.raises(UnknownStudyError):
        ledger.studies.delete_and_list_unneeded_files(study_id)
    with pytest.raises(StudyLeaseLostError, match="deleted"):
        ledger.studies.find_stop_request(study_id, "host/1/0")


def test_study_of_a_command_cannot_be_resumed_into_the_queue(ledger):
    study_id = ledger.studies.store_study_once(study())
    with pytest.raises(StudyBusyError, match="bln-search run"):
        ledger.queue.resume(study_id)
