"""Requests to pause, cancel, resume and delete studies of the queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bln_search.core.errors import StateTransitionError, StudyBusyError, StudyLeaseLostError, UnknownStudyError
from bln_search.core.states import StopRequest, StudyState, TrialState
from bln_search.storage.leases import LEASE
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


@pytest.fixture
def lost_study(ledger, wait):
    """A study whose worker, on a machine that cannot be observed, has sent no heartbeat for the time of a lease."""
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    ledger.queue.claim_next_study("far/1/0", all_are_alive, CAP)
    (trial,) = ledger.trials.list_claimable_trials(study_id)
    ledger.attempts.claim_trial(trial.id, "far/1/0")
    wait(LEASE)
    return study_id


class TestStudyOfALostWorker:
    """Nobody needs another worker to change it."""

    @pytest.mark.parametrize("stop_request", StopRequest)
    def test_request_is_carried_out_at_once(self, ledger, lost_study, stop_request):
        ledger.queue.request_stop(lost_study, stop_request, "ada")
        changed = find_study(ledger, lost_study)
        assert (changed.state, changed.request) == (stop_request.target_state, None)
        assert changed.trials == {TrialState.WAITING: 1}

    def test_resume_returns_it_to_the_queue(self, ledger, lost_study):
        ledger.queue.resume(lost_study)
        assert find_study(ledger, lost_study).state == StudyState.ACCEPTED
        assert ledger.queue.claim_next_study("near/1/0", all_are_alive, CAP) == lost_study

    def test_it_is_deleted(self, ledger, lost_study):
        ledger.studies.delete_and_list_unneeded_files(lost_study)
        assert find_study(ledger, lost_study) is None

    def test_it_is_released_without_a_request(self, ledger, lost_study):
        for _ in range(2):
            ledger.studies.release_lost_studies(all_are_alive)
            assert find_study(ledger, lost_study).state == StudyState.ACCEPTED
        assert event_kinds(ledger, lost_study)[-2:] == ["attempt_lost", "study_accepted"]

    def test_study_of_a_command_is_not_released_but_can_be_cancelled(self, ledger, wait):
        """The command may be suspended with its machine."""
        study_id = ledger.studies.store_study_once(study())
        ledger.studies.lease_and_start(study_id, all_are_alive, "far/1/0")
        wait(LEASE)
        ledger.studies.release_lost_studies(all_are_alive)
        assert find_study(ledger, study_id).state == StudyState.RUNNING
        ledger.queue.cancel(study_id)
        assert find_study(ledger, study_id).state == StudyState.CANCELLED


@pytest.mark.parametrize("stop_request", StopRequest)
def test_request_within_the_lease_is_carried_out_when_it_has_expired(ledger, wait, stop_request):
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    ledger.queue.claim_next_study("far/1/0", all_are_alive, CAP)
    wait(LEASE - timedelta(seconds=1))
    ledger.queue.request_stop(study_id, stop_request)
    ledger.studies.release_lost_studies(all_are_alive)
    assert find_study(ledger, study_id).state == StudyState.RUNNING
    wait(timedelta(seconds=1))
    ledger.studies.release_lost_studies(all_are_alive)
    assert find_study(ledger, study_id).state == stop_request.target_state
