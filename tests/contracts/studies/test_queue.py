"""Contract of the queue, over every database."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from bln_search.core.enums import Scope
from bln_search.core.errors import (
    IdempotencyConflictError,
    LeaseLostError,
    StudyBusyError,
    StudyChangedError,
    TransitionError,
    UnknownStudyError,
)
from bln_search.core.states import StopRequest, StudyState, TrialState
from bln_search.storage.leases import LEASE, WORKER_TIMEOUT
from bln_search.storage.ledger import Ledger
from tests.contracts.queued_studies import CAP, all_are_alive, none_is_alive, study


@pytest.fixture
def ledger(ledger):
    for account in ("ada", "bob", "cyd"):
        ledger.tokens.create(account, Scope.WRITE)
    return ledger


def line(ledger, study_id):
    return ledger.listing.find_study(study_id)


def kinds(ledger, study_id):
    return [event.kind for event in ledger.events.list_events(study_id)]


def test_equal_study_of_an_owner_is_stored_once(ledger):
    first = ledger.queue.submit(study(), "ada")
    repeated = ledger.queue.submit(study(), "ada")
    other_owner = ledger.queue.submit(study(), "bob")
    assert first.new
    assert not repeated.new
    assert repeated.study_id == first.study_id
    assert other_owner.new
    assert other_owner.study_id != first.study_id


def test_idempotency_key_belongs_to_one_study(ledger):
    first = ledger.queue.submit(study(), "ada", "key")
    assert ledger.queue.submit(study(), "ada", "key").study_id == first.study_id
    with pytest.raises(IdempotencyConflictError, match="use a new key"):
        ledger.queue.submit(study("other"), "ada", "key")
    assert ledger.queue.submit(study("other"), "bob", "key").new  # a key belongs to its owner
    ledger.studies.delete(first.study_id)
    assert ledger.queue.submit(study("other"), "ada", "key").new  # and goes with its study


def test_concurrent_equal_submissions_are_stored_once(ledger):
    start = threading.Barrier(8)

    def send(_number):
        start.wait()
        return ledger.queue.submit(study(), "ada", "key")

    with ThreadPoolExecutor(8) as pool:
        submissions = list(pool.map(send, range(8)))
    assert len({submission.study_id for submission in submissions}) == 1
    assert sum(submission.new for submission in submissions) == 1


def test_queue_orders_by_priority_then_age(ledger):
    ids = [ledger.queue.submit(study(f"s{number}"), "ada").study_id for number in range(4)]
    ledger.queue.update(ids[2], {"priority": 5})
    claimed = [ledger.queue.claim(f"host/{number}/0", all_are_alive, CAP) for number in range(5)]
    assert claimed == [ids[2], ids[0], ids[1], ids[3], None]


def test_owners_take_turns(ledger):
    ada_ids = [ledger.queue.submit(study(f"a{number}"), "ada").study_id for number in range(3)]
    bob_ids = [ledger.queue.submit(study(f"b{number}"), "bob").study_id for number in range(2)]
    claimed = []
    for _ in range(5):  # one worker, which ends each study before it takes the next
        claimed.append(ledger.queue.claim("host/1/0", all_are_alive, CAP))
        ledger.studies.fail(claimed[-1], "host/1/0", "over")
    assert claimed == [ada_ids[0], bob_ids[0], ada_ids[1], bob_ids[1], ada_ids[2]]


def test_cap_limits_running_studies_of_an_owner(ledger):
    for number in range(3):
        ledger.queue.submit(study(f"a{number}"), "ada")
    bob_id = ledger.queue.submit(study("b"), "bob").study_id
    claimed = [ledger.queue.claim(f"host/{number}/0", all_are_alive, 1) for number in range(3)]
    assert bob_id in claimed
    assert claimed[2] is None


def test_concurrent_claims_respect_the_cap(ledger):
    ids = [
        ledger.queue.submit(study(f"{owner[0]}{number}"), owner).study_id
        for number in range(6)
        for owner in ("ada", "bob")
    ]
    start = threading.Barrier(8)

    def claim(number):
        start.wait()
        study_ids = [ledger.queue.claim(f"host/{number}/{turn}", all_are_alive, 3) for turn in range(4)]
        return [study_id for study_id in study_ids if study_id is not None]

    with ThreadPoolExecutor(8) as pool:
        claimed = [study_id for study_ids in pool.map(claim, range(8)) for study_id in study_ids]
    turns = itertools.count()
    # Studies that were locked during the concurrent claims are still waiting.
    while (study_id := ledger.queue.claim(f"host/9/{next(turns)}", all_are_alive, 3)) is not None:
        claimed.append(study_id)
    assert len(claimed) == len(set(claimed)) == 6
    assert set(claimed) <= set(ids)
    owners = [line(ledger, claimed_id).owner for claimed_id in claimed]
    assert owners.count("ada") == owners.count("bob") == 3


def test_study_without_owner_is_not_queued(ledger):
    ledger.studies.accept(study())
    assert ledger.queue.claim("host/1/0", all_are_alive, CAP) is None


def test_study_of_a_dead_worker_returns_to_the_queue(ledger):
    """Late reports of that worker are rejected."""
    study_id = ledger.queue.submit(study(), "ada").study_id
    assert ledger.queue.claim("host/1/0", all_are_alive, CAP) == study_id
    (trial,) = ledger.trials.list_open(study_id)
    ledger.attempts.claim_trial(trial.id, "host/1/0")
    assert ledger.queue.claim("host/2/0", all_are_alive, CAP) is None
    assert ledger.queue.claim("host/2/0", none_is_alive, CAP) == study_id
    assert [trial.id for trial in ledger.trials.list_open(study_id)] == [trial.id]
    with pytest.raises(LeaseLostError, match="run by host/2/0 now"):
        ledger.studies.check_lease(study_id, "host/1/0")
    ledger.studies.fail(study_id, "host/1/0", "late")  # says nothing any more
    assert line(ledger, study_id).state == StudyState.RUNNING


def test_worker_without_heartbeats_loses_its_lease(ledger):
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    ledger = Ledger(ledger.database.engine, clock=lambda: clock[0])
    ledger.tokens.create("ada", Scope.WRITE)
    study_id = ledger.queue.submit(study(), "ada").study_id
    assert ledger.queue.claim("far/1/0", all_are_alive, CAP) == study_id
    clock[0] += LEASE - timedelta(seconds=1)
    assert ledger.queue.claim("near/1/0", all_are_alive, CAP) is None
    ledger.attempts.record_heartbeat([], study_id, "far/1/0")
    clock[0] += LEASE - timedelta(seconds=1)
    assert ledger.queue.claim("near/1/0", all_are_alive, CAP) is None
    clock[0] += timedelta(seconds=2)
    assert ledger.queue.claim("near/1/0", all_are_alive, CAP) == study_id


def test_study_that_kills_workers_fails_with_a_reason(ledger):
    study_id = ledger.queue.submit(study(), "ada").study_id
    for number in range(5):
        assert ledger.queue.claim(f"host/{number}/0", none_is_alive, CAP) == study_id
    assert ledger.queue.claim("host/9/0", none_is_alive, CAP) is None
    assert line(ledger, study_id).state == StudyState.FAILED
    assert "5 workers died" in line(ledger, study_id).reason
    ledger.queue.resume(study_id)
    assert line(ledger, study_id).reason is None
    assert ledger.queue.claim("host/9/0", none_is_alive, CAP) == study_id


@pytest.mark.parametrize(
    ("stop_request", "state"), [(StopRequest.PAUSE, StudyState.PAUSED), (StopRequest.CANCEL, StudyState.CANCELLED)]
)
class TestRequests:
    def test_waiting_study_is_stopped_at_once_and_resumed(self, ledger, stop_request, state):
        study_id = ledger.queue.submit(study(), "ada").study_id
        ledger.queue.request(study_id, stop_request)
        ledger.queue.request(study_id, stop_request)  # again is no error
        assert line(ledger, study_id).state == state
        assert ledger.queue.claim("host/1/0", all_are_alive, CAP) is None
        ledger.queue.resume(study_id)
        assert ledger.queue.claim("host/1/0", all_are_alive, CAP) == study_id

    def test_running_study_is_stopped_by_its_worker(self, ledger, stop_request, state):
        study_id = ledger.queue.submit(study(), "ada").study_id
        ledger.queue.claim("host/1/0", all_are_alive, CAP)
        assert ledger.studies.check_lease(study_id, "host/1/0") is None
        ledger.queue.request(study_id, stop_request)
        assert line(ledger, study_id).state == StudyState.RUNNING
        assert ledger.studies.check_lease(study_id, "host/1/0") is stop_request
        assert ledger.studies.finish(study_id, exhausted=False, runner="host/1/0") is state
        assert line(ledger, study_id).request is None

    def test_request_is_carried_out_after_the_worker_died(self, ledger, stop_request, state):
        study_id = ledger.queue.submit(study(), "ada").study_id
        ledger.queue.claim("host/1/0", all_are_alive, CAP)
        ledger.queue.request(study_id, stop_request)
        assert ledger.queue.claim("host/2/0", none_is_alive, CAP) is None
        assert line(ledger, study_id).state == state

    def test_pending_request_can_be_withdrawn(self, ledger, stop_request, state):
        study_id = ledger.queue.submit(study(), "ada").study_id
        ledger.queue.claim("host/1/0", all_are_alive, CAP)
        ledger.queue.request(study_id, stop_request)
        ledger.queue.resume(study_id)
        assert ledger.studies.check_lease(study_id, "host/1/0") is None
        assert kinds(ledger, study_id)[-1] == "request_withdrawn"


def test_a_complete_study_cannot_be_paused(ledger):
    study_id = ledger.queue.submit(study(), "ada").study_id
    ledger.queue.claim("host/1/0", all_are_alive, CAP)
    (trial,) = ledger.trials.list_open(study_id)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.record_divergence(token, "nan")
    assert ledger.studies.finish(study_id, runner="host/1/0") is StudyState.COMPLETE
    with pytest.raises(TransitionError, match="complete"):
        ledger.queue.request(study_id, StopRequest.PAUSE)
    assert line(ledger, study_id).results == 1


def test_stopping_worker_releases_its_study(ledger):
    study_id = ledger.queue.submit(study(), "ada").study_id
    ledger.queue.claim("host/1/0", all_are_alive, CAP)
    (trial,) = ledger.trials.list_open(study_id)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.release_trials([token])
    assert ledger.studies.finish(study_id, exhausted=False, runner="host/1/0") is StudyState.ACCEPTED
    assert ledger.queue.claim("host/2/0", all_are_alive, CAP) == study_id
    assert line(ledger, study_id).trials == {TrialState.WAITING: 1}


def test_update_requires_the_current_revision(ledger):
    study_id = ledger.queue.submit(study(), "ada").study_id
    before = line(ledger, study_id).revision
    ledger.queue.update(study_id, {"notes": "mine", "name": "renamed"}, before)
    assert (line(ledger, study_id).notes, line(ledger, study_id).name) == ("mine", "renamed")
    with pytest.raises(StudyChangedError, match="read it again"):
        ledger.queue.update(study_id, {"notes": "theirs"}, before)
    ledger.queue.update(study_id, {"notes": "mine"})
    assert line(ledger, study_id).revision == before + 1  # nothing new, nothing changed


def test_renaming_to_an_equal_study_is_rejected(ledger):
    first = ledger.queue.submit(study("one"), "ada").study_id
    ledger.queue.update(first, {"name": "two"})
    second = ledger.queue.submit(study("one"), "ada").study_id
    assert second != first
    with pytest.raises(StudyBusyError, match="under the name two"):
        ledger.queue.update(second, {"name": "two"})


def test_a_running_study_is_not_deleted(ledger):
    study_id = ledger.queue.submit(study(), "ada").study_id
    ledger.queue.claim("host/1/0", all_are_alive, CAP)
    with pytest.raises(StudyBusyError, match="cancel it, or stop its command"):
        ledger.studies.delete(study_id)
    ledger.studies.fail(study_id, "host/1/0", "why")
    assert ledger.studies.delete(study_id) == []
    with pytest.raises(UnknownStudyError):
        ledger.studies.delete(study_id)
    with pytest.raises(LeaseLostError, match="deleted"):
        ledger.studies.check_lease(study_id, "host/1/0")


def test_workers_are_listed_while_heartbeats_are_recent(ledger):
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    ledger = Ledger(ledger.database.engine, clock=lambda: clock[0])
    ledger.workers.record_heartbeat("host/1/0", "cpu", "1")
    ledger.workers.record_heartbeat("host/2/0", "cpu", "1")
    ledger.workers.remove("host/2/0")
    assert [live_worker.name for live_worker in ledger.workers.list_live()] == ["host/1/0"]
    clock[0] += WORKER_TIMEOUT + timedelta(seconds=1)
    assert ledger.workers.list_live() == []
    ledger.workers.record_heartbeat("host/1/0", "cpu", "1")
    assert len(ledger.workers.list_live()) == 1


def test_claim_returns_unreleased_studies_of_the_worker(ledger):
    """Its heartbeats name the study it runs, and no other."""
    first = ledger.queue.submit(study("a"), "ada").study_id
    assert ledger.queue.claim("host/1/0", all_are_alive, CAP) == first
    second = ledger.queue.submit(study("b"), "bob").study_id
    assert ledger.queue.claim("host/1/0", all_are_alive, CAP) == second
    assert line(ledger, first).state == StudyState.ACCEPTED
    assert line(ledger, first).reason is None
    before = line(ledger, first).revision
    ledger.attempts.record_heartbeat([], second, "host/1/0")
    assert line(ledger, first).revision == before


def test_ids_are_never_reused(ledger):
    first = ledger.queue.submit(study("a"), "ada").study_id
    ledger.studies.delete(first)
    assert ledger.queue.submit(study("b"), "bob").study_id > first


def test_limit_of_open_studies_holds_for_concurrent_requests(ledger):
    start = threading.Barrier(6)

    def send(number):
        start.wait()
        try:
            return ledger.queue.submit(study(f"s{number}"), "ada", None, 3)
        except StudyBusyError:
            return None

    with ThreadPoolExecutor(6) as pool:
        submissions = [submission for submission in pool.map(send, range(6)) if submission is not None]
    assert len(submissions) == 3
    name = line(ledger, submissions[0].study_id).name
    repeated = ledger.queue.submit(study(name), "ada", None, 3)  # an existing study does not count again
    assert repeated.study_id == submissions[0].study_id


def test_resuming_respects_the_limit_of_open_studies(ledger):
    first, second = (ledger.queue.submit(study(name), "ada", None, 2).study_id for name in ("first", "second"))
    ledger.queue.request(first, StopRequest.PAUSE)
    ledger.queue.request(second, StopRequest.CANCEL)
    ledger.queue.submit(study("third"), "ada", None, 2)
    with pytest.raises(StudyBusyError, match="2 of your studies"):
        ledger.queue.resume(second, 2)
    assert line(ledger, second).state == "cancelled"
    ledger.queue.resume(first, 2)  # one that was paused has its place
    ledger.queue.resume(second, 3)


def test_study_of_a_command_cannot_be_resumed_into_the_queue(ledger):
    study_id = ledger.studies.accept(study())
    with pytest.raises(StudyBusyError, match="bln-search run"):
        ledger.queue.resume(study_id)
