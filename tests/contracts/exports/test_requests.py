"""Contract of requests for exports, over every database."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from bln_search.core.enums import ArchiveContents, ExportStep
from bln_search.core.errors import ExportError, ExportLimitError, UnknownStudyError
from bln_search.core.states import ExportState
from tests.contracts.exports.conftest import WEEK, row_key


def kinds(ledger, study_id):
    return [event.kind for event in ledger.events.list_events(study_id) if event.kind.startswith("export_")]


def test_same_request_is_the_same_export(ledger, exports):
    first = exports.request()
    assert first.state is ExportState.REQUESTED
    assert exports.request() == first
    others = [
        exports.request(ArchiveContents.ONNX),
        exports.request(seed=4),
        exports.request(row=row_key("FFFF", None)),
    ]
    assert len({first.id, *(other.id for other in others)}) == 4
    assert kinds(ledger, exports.study_id) == ["export_requested"] * 4


def test_simultaneous_requests_are_one_export(exports):
    ids, barrier = [], threading.Barrier(4)

    def ask():
        barrier.wait()
        ids.append(exports.request().id)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 4
    assert len(set(ids)) == 1


def test_request_of_a_ready_export_keeps_it_longer(exports):
    ready = exports.build()
    exports.wait(timedelta(days=2))
    assert exports.request().expires_at == ready.expires_at + timedelta(days=2)
    assert exports.claim() is None


def test_failed_export_is_built_again_after_another_request(ledger, exports):
    exports.request()
    exports.jobs.fail_export(exports.claim().running_attempt_key, "the network cannot be traced")
    again = exports.request()
    assert (again.state, again.reason, again.attempt) == (ExportState.REQUESTED, None, 1)
    assert exports.claim().attempt == 2
    assert kinds(ledger, exports.study_id) == ["export_requested", "export_failed", "export_requested"]


def test_number_of_open_exports_of_an_account_is_limited(exports):
    exports.request(limit=2)
    exports.request(ArchiveContents.ONNX, limit=2)
    exports.request(limit=2)  # the same again
    with pytest.raises(ExportLimitError):
        exports.request(seed=4, limit=2)
    exports.request(seed=4, account="bob", limit=2)
    exports.jobs.fail_export(exports.claim().running_attempt_key, "no")
    exports.request(ArchiveContents.SAFETENSORS, limit=2)


def test_exports_are_listed_newest_first(ledger, exports):
    first = exports.request()
    exports.wait(timedelta(seconds=1))
    second = exports.request(seed=4)
    assert [record.id for record in ledger.exports.list_newest_exports(exports.study_id, 10)] == [second.id, first.id]
    assert [record.id for record in ledger.exports.list_newest_exports(exports.study_id, 1)] == [second.id]
    assert [record.seed for record in ledger.exports.list_exports_of_row(exports.study_id, row_key())] == [4, 3]
    assert ledger.exports.list_exports_of_row(exports.study_id, row_key("FFFF", None)) == []
    assert ledger.exports.find_export(exports.study_id + 1, first.id) is None


def test_place_in_the_queue_counts_earlier_exports(ledger, exports):
    exports.request()
    exports.wait(timedelta(seconds=1))
    second, third = exports.request(seed=4), exports.request(ArchiveContents.ONNX)
    places = [ledger.exports.count_exports_waiting_before(record) for record in (second, third)]
    assert places == [1, 2]
    exports.claim()
    assert ledger.exports.count_exports_waiting_before(third) == 2
    exports.jobs.fail_export(exports.claim("host/2/0").running_attempt_key, "no")
    assert ledger.exports.count_exports_waiting_before(third) == 1


def test_exports_end_with_their_study_and_leave_no_archive(ledger, exports):
    ready = exports.build()
    exports.request(seed=4)
    running = exports.claim()
    assert ready.archive.file in ledger.studies.delete_and_list_unneeded_files(exports.study_id)
    assert exports.find(ready) is None
    with pytest.raises(UnknownStudyError):
        exports.request()
    exports.jobs.release_export(running.running_attempt_key)
    assert not exports.jobs.has_open_exports()


def test_lost_archive_is_built_again(ledger, exports):
    ready = exports.build()
    ledger.exports.mark_archive_lost(exports.study_id, ready.id)
    assert (exports.find(ready).state, exports.find(ready).archive) == (ExportState.EXPIRED, None)
    assert exports.request().state is ExportState.REQUESTED


def test_progress_is_recorded(exports):
    exports.request()
    claimed = exports.claim()
    exports.jobs.record_progress(claimed.running_attempt_key, ExportStep.FORMS)
    exports.jobs.record_progress(claimed.running_attempt_key, None)
    assert exports.find(claimed).step is ExportStep.FORMS
    exports.jobs.release_export(claimed.running_attempt_key)
    assert exports.find(claimed).step is None


def test_network_of_a_row_is_that_of_lowest_validation_loss_or_of_a_seed(ledger, exports):
    board = ledger.results.rank_rows_of_study(exports.study_id, ledger.studies.get(exports.study_id).spec)
    row = next(row for row in board.rows if str(row.configuration) == "FFFF")
    losses = {
        record.seed: record.evaluation.loss
        for record in ledger.results.list_clean_evaluations(exports.study_id)
        if record.evaluation.key.configuration == row.configuration and record.evaluation.key.split == "validation"
    }
    find = ledger.exports.get_trial_to_export
    assert find(exports.study_id, row.key).seed == min(losses, key=losses.get)
    assert [find(exports.study_id, row.key, seed).id for seed in (3, 4)] == [exports.trials[3], exports.trials[4]]
    with pytest.raises(ExportError, match="seeds 3, 4"):
        find(exports.study_id, row.key, 5)
    with pytest.raises(ExportError, match="no measured network"):
        find(exports.study_id, row_key("TTTT"))


def test_removed_network_cannot_be_exported(ledger, exports):
    trial = ledger.exports.get_trial_to_export(exports.study_id, row_key("FFFF", None), 3)
    ledger.checkpoints.mark_files_as_freed(exports.study_id, [trial.checkpoint.file])
    with pytest.raises(ExportError, match="was removed on"):
        ledger.exports.get_trial_to_export(exports.study_id, row_key("FFFF", None), 3)


def test_request_keeps_its_archive_for_a_week(exports):
    ready = exports.build()
    assert ready.expires_at - ready.ended_at == WEEK
