"""External results are stored once, atomically, as a study that a worker analyses without any checkpoint file."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest
from sqlalchemy import func, select

from bln_search.core.checkpoints import FolderStore
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split, StudyKind
from bln_search.core.errors import DataError, IdempotencyConflictError, StateTransitionError
from bln_search.core.states import EvaluationState, StudyState, TrialState
from bln_search.storage.needed_files import read_digests_by_needed_file
from bln_search.storage.pagination import PageRequest
from bln_search.storage.tables import CheckpointRow, EvaluationRow, OutcomesRow, StudyRow, TrialRow
from tests.support.external_results import outcomes_of, submit


def count_rows(ledger):
    with ledger.database.read_session() as session:
        tables = StudyRow, TrialRow, CheckpointRow, EvaluationRow, OutcomesRow
        return [session.scalar(select(func.count()).select_from(table)) for table in tables]


def test_stored_study_is_complete_and_waits_for_its_analysis(ledger):
    study_id = submit(ledger).study_id
    study = ledger.studies.get(study_id)
    assert (study.state, study.owner, study.trials) == (StudyState.COMPLETE, "ada", {TrialState.FINISHED: 2})
    assert study.spec.kind is StudyKind.EXTERNAL
    assert [network.name for network in study.spec.external.networks] == ["run 0", "run 1"]
    assert ledger.study_lists.find_study_item(study_id).kind == "external"
    assert [event.kind for event in ledger.events.list_newest_events(study_id, 10)] == [
        "study_accepted",
        "study_complete",
    ]
    assert ledger.queue.claim_next_study("host/1/0", lambda _: True, 2) is None
    assert ledger.analyses.claim_study_without_analysis("host/1/0") == study_id


def test_stored_outcomes_and_losses_are_those_submitted(ledger):
    study_id = submit(ledger, n=13).study_id
    records = ledger.results.list_clean_evaluations(study_id)
    outcomes = dict(ledger.results.iter_outcomes([record.id for record in records]))
    assert len(records) == 2 * 16 * 2
    assert len(outcomes) == 2 * 15 * 2
    codes = list(dict.fromkeys(str(record.evaluation.key.configuration) for record in records))
    for record in records:
        key = record.evaluation.key
        if str(key.configuration) == "TTTT":
            assert record.evaluation.state is EvaluationState.UNDEFINED
            assert record.id not in outcomes
            continue
        expected = outcomes_of(record.seed, codes.index(str(key.configuration)), 13)
        assert np.array_equal(outcomes[record.id].losses, expected.losses)
        assert np.array_equal(outcomes[record.id].correct, expected.correct)
        assert record.evaluation.loss == float(expected.losses.mean(dtype=np.float64))
        assert record.evaluation.accuracy == float(expected.correct.mean())


def test_equal_results_of_an_owner_are_stored_once(ledger):
    first = submit(ledger)
    before = count_rows(ledger)
    repeated = submit(ledger)
    assert (first.new, repeated.new) == (True, False)
    assert repeated.study_id == first.study_id
    assert count_rows(ledger) == before
    assert submit(ledger, owner="bob").study_id != first.study_id
    assert submit(ledger, n=31).study_id != first.study_id


def test_concurrent_equal_results_are_stored_once(ledger):
    start = threading.Barrier(6)

    def send(_number):
        start.wait()
        return submit(ledger)

    with ThreadPoolExecutor(6) as pool:
        submissions = list(pool.map(send, range(6)))
    assert len({submission.study_id for submission in submissions}) == 1
    assert sum(submission.new for submission in submissions) == 1
    assert count_rows(ledger)[:2] == [1, 2]


def test_idempotency_key_belongs_to_one_set_of_results(ledger):
    first = submit(ledger, key="key")
    assert submit(ledger, key="key").study_id == first.study_id
    with pytest.raises(IdempotencyConflictError):
        submit(ledger, "other", key="key")
    assert count_rows(ledger)[0] == 1


def test_results_that_cannot_be_stored_leave_nothing(ledger, monkeypatch):
    def fail(*_arguments, **_options):
        raise RuntimeError("no")

    monkeypatch.setattr("bln_search.storage.studies.external.insert_rows", fail)
    with pytest.raises(RuntimeError):
        submit(ledger)
    assert count_rows(ledger) == [0] * 5


def test_leaderboard_ranks_the_means_over_networks(ledger):
    study_id = submit(ledger, networks=3).study_id
    board = ledger.results.rank_rows_of_study(study_id, ledger.studies.get(study_id).spec)
    ranked = [row for row in board.rows if row.rank is not None]
    means = [row.metrics[Split.VALIDATION].loss.mean for row in ranked]
    assert len(ranked) == 15
    assert means == sorted(means)
    assert {row.seeds for row in ranked} == {3}
    assert board.rows[-1].configuration == InferenceConfiguration("TTTT")


def test_networks_need_no_checkpoint_file(ledger, tmp_path):
    study_id = submit(ledger).study_id
    with ledger.database.read_session() as session:
        assert read_digests_by_needed_file(session) == {}
        checkpoint_id = session.scalar(select(CheckpointRow.id))
    assert [trial.checkpoint for trial in ledger.trials.list_trials(study_id)] == [None, None]
    assert ledger.checkpoints.find_checkpoint(study_id, checkpoint_id) is None
    assert ledger.checkpoints.list_trials_by_validation_loss(study_id, "network", "") == []
    assert ledger.garbage.find_garbage(FolderStore(tmp_path / "kept"), timedelta(hours=2)).files == ()
    assert [networks.files for networks in ledger.prunable_files.list_prunable_files_by_study(1)] == [frozenset()]


def test_deleting_removes_every_row_and_no_file(ledger):
    study_id = submit(ledger).study_id
    assert ledger.studies.delete_and_list_unneeded_files(study_id) == []
    assert count_rows(ledger) == [0] * 5


def test_what_needs_networks_or_a_run_is_one_clear_error(ledger):
    study_id = submit(ledger).study_id
    with pytest.raises(DataError, match=rf"study {study_id} \(own\) has external results"):
        ledger.studies.get(study_id).check_has_no_external_results()
    for request in (ledger.queue.pause, ledger.queue.cancel, lambda number: ledger.queue.resume(number, 5)):
        with pytest.raises(StateTransitionError, match="complete study"):
            request(study_id)


def test_lists_show_the_kind_of_each_study(ledger):
    submit(ledger)
    (item,) = ledger.study_lists.list_study_page_plus_one(PageRequest(5, "-created"))
    assert (item.kind, item.planned, item.results) == ("external", 2, 2)
