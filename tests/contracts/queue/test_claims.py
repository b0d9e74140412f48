"""Workers claim studies in order, and lose those whose lease ends."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from bln_search.core.enums import Scope
from bln_search.core.errors import StudyLeaseLostError
from bln_search.core.states import StudyState, TrialState
from bln_search.storage.leases import LEASE, WORKER_TIMEOUT
from bln_search.storage.ledger import Ledger
from tests.contracts.queued_studies import CAP, all_are_alive, find_study, none_is_alive, study


def test_queue_orders_by_priority_then_age(ledger):
    ids = [ledger.queue.submit_study(study(f"s{number}"), "ada").study_id for number in range(4)]
    ledger.queue.update_study_metadata(ids[2], {"priority": 5})
    claimed = [ledger.queue.claim_next_study(f"host/{number}/0", all_are_alive, CAP) for number in range(5)]
    assert claimed == [ids[2], ids[0], ids[1], ids[3], None]


def test_owners_take_turns(ledger):
    ada_ids = [ledger.queue.submit_study(study(f"a{number}"), "ada").study_id for number in range(3)]
    bob_ids = [ledger.queue.submit_study(study(f"b{number}"), "bob").study_id for number in range(2)]
    claimed = []
    for _ in range(5):  # one worker, which ends each study before it takes the next
        claimed.append(ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP))
        ledger.studies.fail_unless_claimed(claimed[-1], "host/1/0", "over")
    assert claimed == [ada_ids[0], bob_ids[0], ada_ids[1], bob_ids[1], ada_ids[2]]


def test_cap_limits_running_studies_of_an_owner(ledger):
    for number in range(3):
        ledger.queue.submit_study(study(f"a{number}"), "ada")
    bob_id = ledger.queue.submit_study(study("b"), "bob").study_id
    claimed = [ledger.queue.claim_next_study(f"host/{number}/0", all_are_alive, 1) for number in range(3)]
    assert bob_id in claimed
    assert claimed[2] is None


def test_concurrent_claims_respect_the_cap(ledger):
    ids = [
        ledger.queue.submit_study(study(f"{owner[0]}{number}"), owner).study_id
        for number in range(6)
        for owner in ("ada", "bob")
    ]
    start = threading.Barrier(8)

    def claim(number):
        start.wait()
        study_ids = [ledger.queue.claim_next_study(f"host/{number}/{turn}", all_are_alive, 3) for turn in range(4)]
        return [study_id for study_id in study_ids if study_id is not None]

    with ThreadPoolExecutor(8) as pool:
        claimed = [study_id for study_ids in pool.map(claim, range(8)) for study_id in study_ids]
    turns = itertools.count()
    # Studies that were locked during the concurrent claims are still waiting.
    while (study_id := ledger.queue.claim_next_study(f"host/9/{next(turns)}", all_are_alive, 3)) is not None:
        claimed.append(study_id)
    assert len(claimed) == len(set(claimed)) == 6
    assert set(claimed) <= set(ids)
    owners = [find_study(ledger, claimed_id).owner for claimed_id in claimed]
    assert owners.count("ada") == owners.count("bob") == 3


def test_study_of_a_dead_worker_returns_to_the_queue(ledger):
    """Late reports of that worker are rejected."""
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    assert ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP) == study_id
    (trial,) = ledger.trials.list_claimable_trials(study_id)
    ledger.attempts.claim_trial(trial.id, "host/1/0")
    assert ledger.queue.claim_next_study("host/2/0", all_are_alive, CAP) is None
    assert ledger.queue.claim_next_study("host/2/0", none_is_alive, CAP) == study_id
    assert [trial.id for trial in ledger.trials.list_claimable_trials(study_id)] == [trial.id]
    with pytest.raises(StudyLeaseLostError, match="run by host/2/0 now"):
        ledger.studies.find_stop_request(study_id, "host/1/0")
    ledger.studies.fail_unless_claimed(study_id, "host/1/0", "late")  # says nothing any more
    assert find_study(ledger, study_id).state == StudyState.RUNNING


def test_worker_without_heartbeats_loses_its_lease(ledger):
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    ledger = Ledger(ledger.database.engine, clock=lambda: clock[0])
    ledger.tokens.create_token("ada", Scope.WRITE)
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    assert ledger.queue.claim_next_study("far/1/0", all_are_alive, CAP) == study_id
    clock[0] += LEASE - timedelta(seconds=1)
    assert ledger.queue.claim_next_study("near/1/0", all_are_alive, CAP) is None
    ledger.attempts.record_heartbeats([], study_id, "far/1/0")
    clock[0] += LEASE - timedelta(seconds=1)
    assert ledger.queue.claim_next_study("near/1/0", all_are_alive, CAP) is None
    clock[0] += timedelta(seconds=2)
    assert ledger.queue.claim_next_study("near/1/0", all_are_alive, CAP) == study_id


def test_study_that_kills_workers_fails_with_a_reason(ledger):
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    for number in range(5):
        assert ledger.queue.claim_next_study(f"host/{number}/0", none_is_alive, CAP) == study_id
    assert ledger.queue.claim_next_study("host/9/0", none_is_alive, CAP) is None
    assert find_study(ledger, study_id).state == StudyState.FAILED
    assert "5 workers died" in find_study(ledger, study_id).reason
    ledger.queue.resume(study_id)
    assert find_study(ledger, study_id).reason is None
    assert ledger.queue.claim_next_study("host/9/0", none_is_alive, CAP) == study_id


def test_stopping_worker_releases_its_study(ledger):
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP)
    (trial,) = ledger.trials.list_claimable_trials(study_id)
    token = ledger.attempts.claim_trial(trial.id, "host/1/0")
    ledger.attempts.release_attempts([token])
    assert ledger.studies.finish_run(study_id, exhausted=False, runner="host/1/0") is StudyState.ACCEPTED
    assert ledger.queue.claim_next_study("host/2/0", all_are_alive, CAP) == study_id
    assert find_study(ledger, study_id).trials == {TrialState.WAITING: 1}


def test_workers_are_listed_while_heartbeats_are_recent(ledger):
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    ledger = Ledger(ledger.database.engine, clock=lambda: clock[0])
    ledger.workers.record_heartbeat("host/1/0", "cpu", "1")
    ledger.workers.record_heartbeat("host/2/0", "cpu", "1")
    ledger.workers.remove_worker("host/2/0")
    assert [live_worker.name for live_worker in ledger.workers.list_live_workers()] == ["host/1/0"]
    clock[0] += WORKER_TIMEOUT + timedelta(seconds=1)
    assert ledger.workers.list_live_workers() == []
    ledger.workers.record_heartbeat("host/1/0", "cpu", "1")
    assert len(ledger.workers.list_live_workers()) == 1


def test_claim_returns_unreleased_studies_of_the_worker(ledger):
    """Its heartbeats name the study it runs, and no other."""
    first = ledger.queue.submit_study(study("a"), "ada").study_id
    assert ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP) == first
    second = ledger.queue.submit_study(study("b"), "bob").study_id
    assert ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP) == second
    assert find_study(ledger, first).state == StudyState.ACCEPTED
    assert find_study(ledger, first).reason is None
    before = find_study(ledger, first).revision
    ledger.attempts.record_heartbeats([], second, "host/1/0")
    assert find_study(ledger, first).revision == before
