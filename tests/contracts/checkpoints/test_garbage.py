"""Garbage collection removes files that no row needs, and no other file."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.errors import LedgerError
from bln_search.storage.checkpoints.garbage import remove_and_count_garbage
from bln_search.storage.ledger import Ledger
from tests.contracts.checkpoints.stored_networks import (
    DAY,
    ClockAhead,
    clean,
    every_worker_is_alive,
    file_names,
    finish_trials,
    submit_study,
)
from tests.support.checkpoint_records import make_checkpoint_record, name
from tests.support.service_world import make_evaluations


def test_unneeded_files_are_removed(later_ledger, store):
    first = submit_study(later_ledger, "first", ("bln", "bn"))
    finish_trials(later_ledger, first, [1, 2])
    deleted = submit_study(later_ledger, "deleted")
    finish_trials(later_ledger, deleted, [2, 3, 4])
    for number in (1, 2, 3, 4, 9):
        store.write(name(number), b"weights")
    store.write(f".{name(8)}-abc_1", b"not finished")
    store.write("README.txt", b"somebody's own")
    later_ledger.studies.delete_and_list_unneeded_files(deleted)
    garbage = later_ledger.garbage.find_garbage(store, DAY)
    assert (len(garbage.files), garbage.too_recent, garbage.unknown) == (4, 0, 1)
    assert file_names(store) > {name(9)}  # looking removes nothing
    assert clean(later_ledger, store) == (4, 3 * 7 + 12)
    assert file_names(store) == {name(1), name(2), "README.txt"}
    assert clean(later_ledger, store) == (0, 0)


def test_recent_file_without_a_row_is_kept(ledger, store):
    submit_study(ledger, "first")
    store.write(name(1), b"its row comes in a moment")
    assert clean(ledger, store) == (0, 0)
    assert clean(Ledger(ledger.database.engine, ClockAhead(timedelta(minutes=50))), store, timedelta(hours=1)) == (0, 0)
    assert clean(Ledger(ledger.database.engine, ClockAhead(timedelta(minutes=70))), store, timedelta(hours=1))[0] == 1


@pytest.mark.parametrize("age", [timedelta(0), timedelta(minutes=59)])
def test_too_short_age_is_rejected(ledger, store, age):
    with pytest.raises(LedgerError, match="1h or more"):
        ledger.garbage.find_garbage(store, age)


def test_snapshots_of_a_running_trial_are_kept(ledger, store):
    """Their rows come when it has trained, which may take days."""
    study_id = submit_study(ledger, "long", ("bln",))
    ledger.studies.lease_and_start(study_id, every_worker_is_alive, "host/1/0")
    token = ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(study_id)[0].id, "host/1/0")
    store.write(name(1), b"after the first epoch")
    week = Ledger(ledger.database.engine, ClockAhead(7 * DAY))
    week.attempts.record_heartbeats([token])
    assert clean(week, store) == (0, 0)
    week.attempts.record_checkpoint(token, make_checkpoint_record(2, snapshots=[1]))
    week.attempts.finish_trial(token, make_evaluations(0))
    week.studies.finish_run(study_id, runner="host/1/0")
    assert clean(week, store) == (0, 0)
    assert name(1) in file_names(store)


def test_expired_attempt_protects_no_files(ledger, store):
    study_id = submit_study(ledger, "dead", ("bln",))
    ledger.studies.lease_and_start(study_id, every_worker_is_alive, "host/1/0")
    ledger.attempts.claim_trial(ledger.trials.list_claimable_trials(study_id)[0].id, "host/1/0")
    store.write(name(1), b"left by it")
    assert clean(Ledger(ledger.database.engine, ClockAhead(DAY / 2)), store)[0] == 0
    assert clean(Ledger(ledger.database.engine, ClockAhead(3 * DAY)), store)[0] == 1


def test_file_written_again_meanwhile_is_kept(ledger, tmp_path):
    store = FolderStore(tmp_path / "kept")
    submit_study(ledger, "first")
    store.write(name(1), b"weights")
    os.utime(store.path / name(1), (0, 0))
    garbage = ledger.garbage.find_garbage(store, DAY)
    store.write(name(1), b"weights")  # another trial came to the very same network
    assert remove_and_count_garbage(store, garbage) == (0, 0)
