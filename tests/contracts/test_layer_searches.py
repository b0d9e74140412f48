"""Searches of per-layer configurations over both databases: how far they are, and what they found."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from alembic import command
from sqlalchemy import func, inspect, select, update

from bln_search.core.enums import LayerSearch
from bln_search.core.errors import DataError, LedgerError
from bln_search.core.layer_search_record import LayerSums
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import TrialState
from bln_search.specs.layer_search import LayersSpec
from bln_search.storage import queries
from bln_search.storage.engine import reading, rebuilding, writing
from bln_search.storage.layers import find_progress, is_searched, keep_progress, keep_search, layer_searches
from bln_search.storage.ledger import open_ledger
from bln_search.storage.migration import alembic_config
from bln_search.storage.tables import LayerSearchRow
from bln_search.storage.trained import trained_trials
from tests.service.conftest import finish_trial, study
from tests.storage.searches import assert_same, made_up

ASKED = LayersSpec()
OTHER = LayersSpec(search=LayerSearch.BEAM)


def complete(ledger, name="study", seeds=(0, 1)):
    study_id = ledger.accept(study(name, seeds))
    ledger.start_study(study_id, lambda _: True, "host/1/0")
    for trial in ledger.open_trials(study_id):
        finish_trial(ledger, trial)
    ledger.end_study(study_id)
    return study_id


def progress(seed=0):
    draw = np.random.default_rng(seed)
    return LayerSums(None, draw.random((2, 256)), draw.integers(0, 9, (2, 256)), np.array([25, 0]))


def keep(ledger, trial, record, asked=ASKED):
    keep_search(ledger.engine, trial.id, trial.checkpoint.sha256, asked, record, ledger.clock())


def note(ledger, trial, sums, done, asked=ASKED):
    keep_progress(ledger.engine, trial.id, trial.checkpoint.sha256, asked, sums, done, ledger.clock())


def rows(ledger):
    with reading(ledger.engine) as session:
        return session.scalar(select(func.count()).select_from(LayerSearchRow))


def test_what_is_added_up_is_found_again_as_it_was_by_the_same_question_alone(ledger):
    first, second = trained_trials(ledger.engine, complete(ledger))
    assert find_progress(ledger.engine, first.id, ASKED) is None
    note(ledger, first, progress(1), 1)
    note(ledger, first, progress(2), 5)
    sums, done = find_progress(ledger.engine, first.id, LayersSpec.model_validate_json(ASKED.model_dump_json()))
    assert done == 5
    assert_same(sums, progress(2))
    assert find_progress(ledger.engine, first.id, OTHER) is None
    assert find_progress(ledger.engine, second.id, ASKED) is None
    assert not is_searched(ledger.engine, first.id, ASKED)
    assert rows(ledger) == 1


def test_a_search_is_read_as_it_was_written(ledger):
    study_id = complete(ledger)
    first, second = trained_trials(ledger.engine, study_id)
    records = made_up(0), made_up(1, digits=[(0, 0), (2, 3)])
    keep(ledger, second, records[1])
    keep(ledger, first, records[0])
    found = list(layer_searches(ledger.engine, study_id))
    assert [(one.arm, one.point, one.seed, one.spec) for one in found] == [("bln", "", 0, ASKED), ("bln", "", 1, ASKED)]
    for one, record in zip(found, records, strict=True):
        assert_same(one.record, record)
    assert found[0].made_at >= found[1].made_at
    assert abs(found[0].made_at - ledger.clock()) < timedelta(minutes=1)
    assert is_searched(ledger.engine, first.id, ASKED)
    assert not is_searched(ledger.engine, first.id, OTHER)


def test_a_search_takes_the_place_of_its_progress_and_of_an_earlier_search(ledger):
    study_id = complete(ledger, seeds=(0,))
    (trial,) = trained_trials(ledger.engine, study_id)
    note(ledger, trial, progress(), 3)
    assert list(layer_searches(ledger.engine, study_id)) == []
    keep(ledger, trial, made_up(0))
    assert find_progress(ledger.engine, trial.id, ASKED) is None
    keep(ledger, trial, made_up(1), OTHER)
    (found,) = layer_searches(ledger.engine, study_id)
    assert found.spec == OTHER
    assert_same(found.record, made_up(1))
    assert not is_searched(ledger.engine, trial.id, ASKED)
    assert rows(ledger) == 1


def test_a_worker_that_is_behind_takes_nothing_back(ledger):
    """Two may search the same network, where one was silent for a while."""
    study_id = complete(ledger, seeds=(0,))
    (trial,) = trained_trials(ledger.engine, study_id)
    note(ledger, trial, progress(1), 5)
    note(ledger, trial, progress(2), 3)
    assert find_progress(ledger.engine, trial.id, ASKED)[1] == 5
    keep(ledger, trial, made_up(0))
    note(ledger, trial, progress(3), 9)
    (found,) = layer_searches(ledger.engine, study_id)
    assert_same(found.record, made_up(0))
    note(ledger, trial, progress(4), 1, OTHER)
    assert find_progress(ledger.engine, trial.id, OTHER)[1] == 1, "another question begins anew"


def test_searches_belong_to_their_study(ledger):
    study_id, other = complete(ledger), complete(ledger, "other")
    for one in (study_id, other):
        keep(ledger, trained_trials(ledger.engine, one)[0], made_up(one))
    ledger.delete_study(study_id)
    assert rows(ledger) == 1
    (left,) = layer_searches(ledger.engine, other)
    assert_same(left.record, made_up(other))


def test_what_was_found_of_a_network_that_was_trained_anew_meanwhile_is_refused(ledger):
    study_id = complete(ledger)
    trial = trained_trials(ledger.engine, study_id)[0]
    now = ledger.clock()
    with pytest.raises(DataError, match="trained anew or deleted while its layers were searched: search again"):
        keep_search(ledger.engine, trial.id, "another", ASKED, made_up(), now)
    with pytest.raises(DataError, match="search again"):
        keep_progress(ledger.engine, trial.id, "another", ASKED, progress(), 1, now)
    assert rows(ledger) == 0
    ledger.delete_study(study_id)
    with pytest.raises(DataError, match="search again"):
        keep(ledger, trial, made_up())


def test_what_is_known_of_a_network_goes_when_another_takes_its_place(ledger):
    study_id = ledger.accept(study(seeds=(0,)))
    ledger.start_study(study_id, lambda _: True)
    (trial,) = ledger.open_trials(study_id)
    token = ledger.claim(trial.id, "host/1/0")
    ledger.record_checkpoint(token, CheckpointRecord("one.safetensors", "1" * 64, 1, "FFFF", 0.5, {}))
    keep_search(ledger.engine, trial.id, "1" * 64, ASKED, made_up(), ledger.clock())
    ledger.record_checkpoint(token, CheckpointRecord("two.safetensors", "2" * 64, 1, "FFFF", 0.5, {}))
    assert rows(ledger) == 0
    assert not is_searched(ledger.engine, trial.id, ASKED)


@pytest.mark.parametrize(
    "damage", [{"sums": b"x"}, {"outcomes": b"x"}, {"body": "{}"}, {"body": "x"}, {"spec": '{"folds": "many"}'}]
)
def test_a_damaged_search_is_an_error_of_the_ledger(ledger, damage):
    study_id = complete(ledger, seeds=(0,))
    keep(ledger, trained_trials(ledger.engine, study_id)[0], made_up())
    with writing(ledger.engine) as session:
        session.execute(update(LayerSearchRow).values(**damage))
    with pytest.raises(LedgerError, match="damaged"):
        list(layer_searches(ledger.engine, study_id))


def test_damaged_progress_is_an_error_of_the_ledger(ledger):
    (trial,) = trained_trials(ledger.engine, complete(ledger, seeds=(0,)))
    note(ledger, trial, progress(), 3)
    with writing(ledger.engine) as session:
        session.execute(update(LayerSearchRow).values(sums=b"PK"))
    with pytest.raises(LedgerError, match="damaged"):
        find_progress(ledger.engine, trial.id, ASKED)


def test_a_study_deleted_while_its_searches_are_read_ends_the_reading(ledger):
    study_id = complete(ledger)
    for trial in trained_trials(ledger.engine, study_id):
        keep(ledger, trial, made_up())
    reading_on = layer_searches(ledger.engine, study_id)
    next(reading_on)
    ledger.delete_study(study_id)
    assert list(reading_on) == []


def test_an_older_schema_gets_the_table_and_a_downgrade_takes_nothing_else(url):
    ledger = open_ledger(url)
    study_id = complete(ledger)
    keep(ledger, trained_trials(ledger.engine, study_id)[0], made_up())
    config = alembic_config()

    def go(step, revision):
        with rebuilding(ledger.engine) as connection:
            config.attributes["connection"] = connection
            step(config, revision)

    go(command.downgrade, "0004")
    assert not inspect(ledger.engine).has_table("layer_search")
    assert [trial.state for trial in queries.trials(ledger.engine, study_id)] == [TrialState.FINISHED] * 2
    ledger.close()
    ledger = open_ledger(url)  # brings it up to date
    assert rows(ledger) == 0
    trial = trained_trials(ledger.engine, study_id)[0]
    keep(ledger, trial, made_up())
    assert is_searched(ledger.engine, trial.id, ASKED)
    ledger.close()
