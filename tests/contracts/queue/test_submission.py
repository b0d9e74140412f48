"""Studies enter the queue once, within the limits of their owner."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bln_search.core.errors import IdempotencyConflictError, StaleRevisionError, StudyBusyError
from bln_search.core.states import StopRequest
from tests.contracts.queued_studies import CAP, all_are_alive, find_study, study


def test_equal_study_of_an_owner_is_stored_once(ledger):
    first = ledger.queue.submit_study(study(), "ada")
    repeated = ledger.queue.submit_study(study(), "ada")
    other_owner = ledger.queue.submit_study(study(), "bob")
    assert first.new
    assert not repeated.new
    assert repeated.study_id == first.study_id
    assert other_owner.new
    assert other_owner.study_id != first.study_id


def test_idempotency_key_belongs_to_one_study(ledger):
    first = ledger.queue.submit_study(study(), "ada", "key")
    assert ledger.queue.submit_study(study(), "ada", "key").study_id == first.study_id
    with pytest.raises(IdempotencyConflictError, match="use a new key"):
        ledger.queue.submit_study(study("other"), "ada", "key")
    assert ledger.queue.submit_study(study("other"), "bob", "key").new  # a key belongs to its owner
    ledger.studies.delete_and_list_unneeded_files(first.study_id)
    assert ledger.queue.submit_study(study("other"), "ada", "key").new  # and goes with its study


def test_concurrent_equal_submissions_are_stored_once(ledger):
    start = threading.Barrier(8)

    def send(_number):
        start.wait()
        return ledger.queue.submit_study(study(), "ada", "key")

    with ThreadPoolExecutor(8) as pool:
        submissions = list(pool.map(send, range(8)))
    assert len({submission.study_id for submission in submissions}) == 1
    assert sum(submission.new for submission in submissions) == 1


def test_study_without_owner_is_not_queued(ledger):
    ledger.studies.store_study_once(study())
    assert ledger.queue.claim_next_study("host/1/0", all_are_alive, CAP) is None


def test_update_requires_the_current_revision(ledger):
    study_id = ledger.queue.submit_study(study(), "ada").study_id
    before = find_study(ledger, study_id).revision
    ledger.queue.update_study_metadata(study_id, {"notes": "mine", "name": "renamed"}, before)
    assert (find_study(ledger, study_id).notes, find_study(ledger, study_id).name) == ("mine", "renamed")
    with pytest.raises(StaleRevisionError, match="read it again"):
        ledger.queue.update_study_metadata(study_id, {"notes": "theirs"}, before)
    ledger.queue.update_study_metadata(study_id, {"notes": "mine"})
    assert find_study(ledger, study_id).revision == before + 1  # nothing new, nothing changed


def test_renaming_to_an_equal_study_is_rejected(ledger):
    first = ledger.queue.submit_study(study("one"), "ada").study_id
    ledger.queue.update_study_metadata(first, {"name": "two"})
    second = ledger.queue.submit_study(study("one"), "ada").study_id
    assert second != first
    with pytest.raises(StudyBusyError, match="under the name two"):
        ledger.queue.update_study_metadata(second, {"name": "two"})


def test_ids_are_never_reused(ledger):
    first = ledger.queue.submit_study(study("a"), "ada").study_id
    ledger.studies.delete_and_list_unneeded_files(first)
    assert ledger.queue.submit_study(study("b"), "bob").study_id > first


def test_limit_of_open_studies_holds_for_concurrent_requests(ledger):
    start = threading.Barrier(6)

    def send(number):
        start.wait()
        try:
            return ledger.queue.submit_study(study(f"s{number}"), "ada", None, 3)
        except StudyBusyError:
            return None

    with ThreadPoolExecutor(6) as pool:
        submissions = [submission for submission in pool.map(send, range(6)) if submission is not None]
    assert len(submissions) == 3
    name = find_study(ledger, submissions[0].study_id).name
    repeated = ledger.queue.submit_study(study(name), "ada", None, 3)  # an existing study does not count again
    assert repeated.study_id == submissions[0].study_id


def test_resuming_respects_the_limit_of_open_studies(ledger):
    first, second = (ledger.queue.submit_study(study(name), "ada", None, 2).study_id for name in ("first", "second"))
    ledger.queue.request_stop(first, StopRequest.PAUSE)
    ledger.queue.request_stop(second, StopRequest.CANCEL)
    ledger.queue.submit_study(study("third"), "ada", None, 2)
    with pytest.raises(StudyBusyError, match="2 of your studies"):
        ledger.queue.resume(second, 2)
    assert find_study(ledger, second).state == "cancelled"
    ledger.queue.resume(first, 2)  # one that was paused has its place
    ledger.queue.resume(second, 3)
