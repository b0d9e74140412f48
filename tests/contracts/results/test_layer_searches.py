"""Progress and results of per-layer searches, over every database."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from sqlalchemy import func, select, update

from bln_search.core.enums import LayerSearchAlgorithm
from bln_search.core.errors import DataError, LedgerError
from bln_search.core.layer_search_record import FoldScoreSums
from bln_search.core.records import CheckpointRecord
from bln_search.specs.sections.layer_search import LayerSearchSpec
from bln_search.storage.engine import read_session, write_session
from bln_search.storage.tables import LayerSearchRow
from tests.storage.searches import assert_same, make_search_record
from tests.support.service_world import RUNNER, complete_study, start_study

SPEC = LayerSearchSpec()
OTHER = LayerSearchSpec(search=LayerSearchAlgorithm.BEAM)


def complete(ledger, name="study", **options):
    return complete_study(ledger, name, "ada", **options)


def progress(seed=0):
    draw = np.random.default_rng(seed)
    return FoldScoreSums(None, draw.random((2, 256)), draw.integers(0, 9, (2, 256)), np.array([25, 0]))


def store_record(ledger, trial, record, spec=SPEC):
    ledger.layer_searches.save_record(trial.id, trial.checkpoint.sha256, spec, record)


def store_progress(ledger, trial, sums, completed, spec=SPEC):
    ledger.layer_searches.save_progress(trial.id, trial.checkpoint.sha256, spec, sums, completed)


def rows(ledger):
    with read_session(ledger.database.engine) as session:
        return session.scalar(select(func.count()).select_from(LayerSearchRow))


def test_progress_is_found_by_the_same_search_only(ledger):
    first, second = ledger.trials.list_finished_full_trials(complete(ledger))
    assert ledger.layer_searches.find_saved_sums(first.id, SPEC) is None
    store_progress(ledger, first, progress(1), 1)
    store_progress(ledger, first, progress(2), 5)
    sums, completed = ledger.layer_searches.find_saved_sums(
        first.id, LayerSearchSpec.model_validate_json(SPEC.model_dump_json())
    )
    assert completed == 5
    assert_same(sums, progress(2))
    assert ledger.layer_searches.find_saved_sums(first.id, OTHER) is None
    assert ledger.layer_searches.find_saved_sums(second.id, SPEC) is None
    assert not ledger.layer_searches.is_search_finished(first.id, SPEC)
    assert rows(ledger) == 1


def test_finished_search_is_read_as_it_was_stored(ledger):
    study_id = complete(ledger)
    first, second = ledger.trials.list_finished_full_trials(study_id)
    records = make_search_record(0), make_search_record(1, digits=[(0, 0), (2, 3)])
    store_record(ledger, second, records[1])
    store_record(ledger, first, records[0])
    searches = list(ledger.layer_searches.iter_finished_searches(study_id))
    assert [(search.arm, search.point, search.seed, search.spec) for search in searches] == [
        ("bln", "", 0, SPEC),
        ("bln", "", 1, SPEC),
    ]
    for search, record in zip(searches, records, strict=True):
        assert_same(search.record, record)
    assert searches[0].made_at >= searches[1].made_at
    assert abs(searches[0].made_at - ledger.now()) < timedelta(minutes=1)
    assert ledger.layer_searches.is_search_finished(first.id, SPEC)
    assert not ledger.layer_searches.is_search_finished(first.id, OTHER)


def test_finished_search_replaces_earlier_records(ledger):
    study_id = complete(ledger, seeds=(0,))
    (trial,) = ledger.trials.list_finished_full_trials(study_id)
    store_progress(ledger, trial, progress(), 3)
    assert list(ledger.layer_searches.iter_finished_searches(study_id)) == []
    store_record(ledger, trial, make_search_record(0))
    assert ledger.layer_searches.find_saved_sums(trial.id, SPEC) is None
    store_record(ledger, trial, make_search_record(1), OTHER)
    (search,) = ledger.layer_searches.iter_finished_searches(study_id)
    assert search.spec == OTHER
    assert_same(search.record, make_search_record(1))
    assert not ledger.layer_searches.is_search_finished(trial.id, SPEC)
    assert rows(ledger) == 1


def test_slower_worker_does_not_overwrite_progress(ledger):
    """Two may search the same network, where one was silent for a while."""
    study_id = complete(ledger, seeds=(0,))
    (trial,) = ledger.trials.list_finished_full_trials(study_id)
    store_progress(ledger, trial, progress(1), 5)
    store_progress(ledger, trial, progress(2), 3)
    assert ledger.layer_searches.find_saved_sums(trial.id, SPEC)[1] == 5
    store_record(ledger, trial, make_search_record(0))
    store_progress(ledger, trial, progress(3), 9)
    (search,) = ledger.layer_searches.iter_finished_searches(study_id)
    assert_same(search.record, make_search_record(0))
    store_progress(ledger, trial, progress(4), 1, OTHER)
    assert ledger.layer_searches.find_saved_sums(trial.id, OTHER)[1] == 1, "another question begins anew"


def test_searches_belong_to_their_study(ledger):
    study_id, other_id = complete(ledger), complete(ledger, "other")
    for number in (study_id, other_id):
        store_record(ledger, ledger.trials.list_finished_full_trials(number)[0], make_search_record(number))
    ledger.studies.delete_and_list_unneeded_files(study_id)
    assert rows(ledger) == 1
    (remaining,) = ledger.layer_searches.iter_finished_searches(other_id)
    assert_same(remaining.record, make_search_record(other_id))


def test_search_of_a_replaced_checkpoint_is_rejected(ledger):
    study_id = complete(ledger)
    trial = ledger.trials.list_finished_full_trials(study_id)[0]
    with pytest.raises(DataError, match="search again"):
        ledger.layer_searches.save_record(trial.id, "another", SPEC, make_search_record())
    with pytest.raises(DataError, match="search again"):
        ledger.layer_searches.save_progress(trial.id, "another", SPEC, progress(), 1)
    assert rows(ledger) == 0
    ledger.studies.delete_and_list_unneeded_files(study_id)
    with pytest.raises(DataError, match="search again"):
        store_record(ledger, trial, make_search_record())


def test_new_checkpoint_deletes_the_search_of_the_old_one(ledger):
    _, (trial,) = start_study(ledger, "study", "ada", seeds=(0,))
    token = ledger.attempts.claim_trial(trial.id, RUNNER)
    ledger.attempts.record_checkpoint(token, CheckpointRecord("one.safetensors", "1" * 64, 1, "FFFF", 0.5, {}))
    ledger.layer_searches.save_record(trial.id, "1" * 64, SPEC, make_search_record())
    ledger.attempts.record_checkpoint(token, CheckpointRecord("two.safetensors", "2" * 64, 1, "FFFF", 0.5, {}))
    assert rows(ledger) == 0
    assert not ledger.layer_searches.is_search_finished(trial.id, SPEC)


@pytest.mark.parametrize(
    "damage", [{"sums": b"x"}, {"outcomes": b"x"}, {"body": "{}"}, {"body": "x"}, {"spec": '{"folds": "many"}'}]
)
def test_damaged_search_raises_ledger_error(ledger, damage):
    study_id = complete(ledger, seeds=(0,))
    store_record(ledger, ledger.trials.list_finished_full_trials(study_id)[0], make_search_record())
    with write_session(ledger.database.engine) as session:
        session.execute(update(LayerSearchRow).values(**damage))
    with pytest.raises(LedgerError, match="damaged"):
        list(ledger.layer_searches.iter_finished_searches(study_id))


def test_damaged_progress_raises_ledger_error(ledger):
    (trial,) = ledger.trials.list_finished_full_trials(complete(ledger, seeds=(0,)))
    store_progress(ledger, trial, progress(), 3)
    with write_session(ledger.database.engine) as session:
        session.execute(update(LayerSearchRow).values(sums=b"PK"))
    with pytest.raises(LedgerError, match="damaged"):
        ledger.layer_searches.find_saved_sums(trial.id, SPEC)


def test_iteration_ends_when_the_study_is_deleted(ledger):
    study_id = complete(ledger)
    for trial in ledger.trials.list_finished_full_trials(study_id):
        store_record(ledger, trial, make_search_record())
    reading_on = ledger.layer_searches.iter_finished_searches(study_id)
    next(reading_on)
    ledger.studies.delete_and_list_unneeded_files(study_id)
    assert list(reading_on) == []
