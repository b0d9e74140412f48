"""Deletion of a study removes the checkpoints that no other study needs."""

from __future__ import annotations

import hashlib
import os

from bln_search.core.records import CheckpointRecord
from tests.support.service_world import STUDIES, study


def test_deleting_keeps_files_of_running_trials(world, client):
    """A trial alike of another study writes the same file, and its row is still to come."""
    study_id = world.complete()
    trials = client.get(f"{STUDIES}/{study_id}/trials").json()["items"]
    store = world.settings.checkpoint_store
    old_file, young_file = (trial["checkpoint"]["file"] for trial in trials[:2])
    store.write(old_file, b"old")
    os.utime(store.path / old_file, (1e9, 1e9))
    other_id = world.ledger.queue.submit_study(study("alike"), "bob").study_id
    world.ledger.studies.lease_and_start(other_id, lambda _: True, "host/2/0")
    world.ledger.attempts.claim_trial(world.ledger.trials.list_claimable_trials(other_id)[0].id, "host/2/0")
    store.write(young_file, b"young")
    assert client.delete(f"{STUDIES}/{study_id}").status_code == 204
    assert [file.name for file in store.iter_files()] == [young_file]


def test_delete_keeps_checkpoints_that_another_study_reuses(world, client, monkeypatch):
    """Removing many files from a bucket takes long; the same study sent in again writes the same names."""
    study_id = world.complete()
    store = world.settings.checkpoint_store
    first, second = sorted(
        item["checkpoint"]["file"] for item in client.get(f"{STUDIES}/{study_id}/trials").json()["items"]
    )
    for name in (first, second):
        store.write(name, b"weights")
        os.utime(store.path / name, (1e9, 1e9))
    usual = type(store).delete

    def slow(self, name):
        usual(self, name)
        if name == first:
            repeated_id = world.ledger.queue.submit_study(study("again"), "ada").study_id
            world.ledger.studies.lease_and_start(repeated_id, lambda _: True, "host/2/0")
            token = world.ledger.attempts.claim_trial(
                world.ledger.trials.list_claimable_trials(repeated_id)[0].id, "host/2/0"
            )
            world.ledger.attempts.record_checkpoint(token, CheckpointRecord(second, "0" * 64, 2, "FFFF", 0.5, {}))
            world.ledger.attempts.finish_trial(token, ())

    monkeypatch.setattr(type(store), "delete", slow)
    assert client.delete(f"{STUDIES}/{study_id}").status_code == 204
    assert [file.name for file in store.iter_files()] == [second]


def test_deleting_removes_files_of_the_study_only(world, client):
    study_id = world.complete()
    (trial, *_) = client.get(f"{STUDIES}/{study_id}/trials").json()["items"]
    file = world.settings.checkpoint_store.path / trial["checkpoint"]["file"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"weights")
    with world.ledger.database.engine.begin() as connection:
        digest = hashlib.sha256(b"weights").hexdigest()
        connection.exec_driver_sql(f"UPDATE checkpoint SET sha256 = '{digest}' WHERE file = '{file.name}'")
    response = client.get(f"{STUDIES}/{study_id}/checkpoints/{trial['checkpoint']['id']}")
    assert response.content == b"weights"
    assert client.delete(f"{STUDIES}/{study_id}").status_code == 204
    assert not file.exists()
