"""Contract of exports as jobs of workers: leases, fencing tokens, expiry."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.errors import StaleAttemptError, StateTransitionError
from bln_search.core.states import ExportState, check_state_transition
from bln_search.storage.exports.jobs import MAX_TRIES
from bln_search.storage.leases import LEASE
from tests.contracts.exports.conftest import WEEK, stored

ALMOST = LEASE - timedelta(seconds=1)


def test_oldest_export_is_claimed_by_one_worker(exports):
    first = exports.request(seed=4)
    exports.wait(timedelta(seconds=1))
    second = exports.request()
    assert [exports.claim(f"host/{number}/0").id for number in (1, 2)] == [first.id, second.id]
    assert exports.claim("host/3/0") is None
    assert exports.jobs.has_open_exports()


def test_export_of_a_lost_worker_is_built_by_another_one(exports):
    """Nothing is lost: the request waits again, and a late report of the first worker changes nothing."""
    exports.request()
    lost = exports.claim("host/1/0")
    exports.wait(ALMOST)
    exports.jobs.record_progress(lost.running_attempt_key, None)  # a heartbeat
    exports.wait(ALMOST)
    assert exports.claim("host/2/0") is None
    exports.wait(timedelta(seconds=2))
    claimed = exports.claim("host/2/0")
    assert (claimed.id, claimed.attempt) == (lost.id, 2)
    for report in (
        lambda: exports.jobs.record_progress(lost.running_attempt_key, ExportStep.FORMS),
        lambda: exports.jobs.finish_export(lost.running_attempt_key, stored(1), WEEK),
        lambda: exports.jobs.fail_export(lost.running_attempt_key, "late"),
        lambda: exports.jobs.requeue_or_fail(lost.running_attempt_key, "late"),
    ):
        with pytest.raises(StaleAttemptError):
            report()
    exports.jobs.release_export(lost.running_attempt_key)
    exports.jobs.finish_export(claimed.running_attempt_key, stored(2), WEEK)
    assert exports.find(claimed).archive == stored(2)


def test_export_of_a_dead_process_is_claimed_at_once(exports):
    exports.request()
    exports.claim("host/1/0")
    assert exports.claim("host/2/0", lambda worker: worker != "host/1/0").attempt == 2


def test_export_of_a_lost_worker_waits_again_without_another_one(exports):
    exports.request()
    lost = exports.claim("far/1/0")
    exports.jobs.release_lost_exports(lambda _: True)
    assert exports.find(lost).state is ExportState.RUNNING
    exports.wait(LEASE)
    exports.jobs.release_lost_exports(lambda _: True)
    assert exports.find(lost).state is ExportState.REQUESTED


def test_worker_that_could_not_report_claims_its_export_again(exports):
    exports.request()
    assert [exports.claim("host/1/0").attempt for _ in range(2)] == [1, 2]


def test_export_fails_after_lost_workers(exports):
    exports.request()
    for number in range(MAX_TRIES):
        claimed = exports.claim(f"host/{number}/0", lambda _: False)
    assert exports.claim("host/9/0", lambda _: False) is None
    failed = exports.find(claimed)
    assert failed.state is ExportState.FAILED
    assert "host/2/0 stopped" in failed.reason


def test_fault_of_a_machine_is_tried_again_and_reported_at_last(exports):
    exports.request()
    for attempt in range(1, MAX_TRIES):
        exports.jobs.requeue_or_fail(exports.claim().running_attempt_key, f"no data {attempt}")
    waiting = exports.claim()
    assert (waiting.attempt, waiting.reason) == (MAX_TRIES, f"no data {MAX_TRIES - 1}")
    exports.jobs.requeue_or_fail(waiting.running_attempt_key, "no data")
    assert exports.find(waiting).state is ExportState.FAILED


def test_release_does_not_count_as_an_attempt_that_failed(exports):
    exports.request()
    for _ in range(2 * MAX_TRIES):
        exports.jobs.release_export(exports.claim().running_attempt_key)
    exports.jobs.requeue_or_fail(exports.claim().running_attempt_key, "no data")
    assert exports.claim() is not None


def test_archives_expire_by_age(exports):
    first = exports.build(1)
    exports.wait(timedelta(days=1))
    second = exports.build(2, seed=4)
    assert exports.jobs.expire_and_list_archives(10**9) == []
    exports.wait(WEEK - timedelta(hours=1))
    assert exports.jobs.expire_and_list_archives(10**9) == [first.archive.file]
    assert exports.find(first).state is ExportState.EXPIRED
    assert exports.find(second).archive == second.archive


def test_first_archives_expire_while_all_are_too_large(exports):
    made = []
    for number, archive_format in enumerate(ArchiveContents, start=1):
        made.append(exports.build(number, size=10, archive_format=archive_format))
        exports.wait(timedelta(minutes=1))
    assert exports.jobs.expire_and_list_archives(25) == sorted(record.archive.file for record in made[:2])
    assert [exports.find(record).state for record in made] == ["expired", "expired", "ready", "ready"]


def test_file_of_two_exports_stays_while_one_is_ready(exports):
    exports.build(1)
    exports.wait(timedelta(days=1))
    other = exports.build(1, seed=4)
    exports.wait(WEEK - timedelta(hours=1))
    assert exports.jobs.expire_and_list_archives(10**9) == []
    assert exports.find(other).archive == stored(1)


def test_ready_export_cannot_fail():
    with pytest.raises(StateTransitionError, match="this export is ready"):
        check_state_transition(ExportState.READY, ExportState.FAILED)


def test_archive_is_kept_by_garbage_collection_until_it_expires(ledger, exports, tmp_path):
    store = FolderStore(tmp_path / "kept")
    ready = exports.build()
    archives = {ready.archive.file, stored(2).file}  # the second is that of a worker that was killed before its report
    for name in (*archives, f".{stored(3).file}-abc_1"):
        store.write(name, b"archive")
    exports.wait(timedelta(days=2))
    garbage = ledger.garbage.find_garbage(store, timedelta(days=1))
    assert {file.name for file in garbage.files} == {stored(2).file, f".{stored(3).file}-abc_1"}
    ledger.garbage.remove_unreferenced_files(store, archives)
    assert store.has_file(ready.archive.file)
    exports.wait(WEEK)
    ledger.garbage.remove_unreferenced_files(store, exports.jobs.expire_and_list_archives(10**9))
    assert not store.has_file(ready.archive.file)
