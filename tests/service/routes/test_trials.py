"""Trials over HTTP: attempts with their errors, epochs, durations, events."""

from __future__ import annotations

import pytest

from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from tests.support.service_world import STUDIES, start_study


@pytest.fixture
def failed(world):
    """A study whose first trial failed twice after one epoch; its second trial waits."""
    study_id, (trial, _) = start_study(world.ledger, "failing", "ada", seeds=(3, 4), epochs=5)
    attempts = world.ledger.attempts
    for again, reason in ((True, "killed"), (False, "CUDA out of memory")):
        token = attempts.claim_trial(trial.id, "host/1/0")
        attempts.record_epochs(token, [EpochRecord(1, 0.5, 0.6, 0.7, 0.8, 0.01)])
        attempts.record_failure(token, FailureClass.OUT_OF_MEMORY, reason, again=again)
    return study_id, trial.id


def test_trial_has_its_attempts_and_their_errors(client, failed):
    study_id, trial_id = failed
    trial = client.get(f"{STUDIES}/{study_id}/trials/{trial_id}").json()
    assert [(attempt["number"], attempt["state"], attempt["failure"]) for attempt in trial["attempts"]] == [
        (1, "failed", "out_of_memory"),
        (2, "failed", "out_of_memory"),
    ]
    assert [attempt["reason"] for attempt in trial["attempts"]] == ["killed", "CUDA out of memory"]
    assert (trial["state"], trial["epoch"], trial["planned_epochs"], trial["seed"]) == ("failed", 1, 5, 3)
    assert trial["seconds"] >= 0


def test_list_and_single_trial_agree(client, failed):
    study_id, trial_id = failed
    first, second = client.get(f"{STUDIES}/{study_id}/trials").json()["items"]
    assert first == client.get(f"{STUDIES}/{study_id}/trials/{trial_id}").json()
    assert (second["attempts"], second["epoch"], second["seconds"]) == ([], 0, None)


@pytest.mark.parametrize("trial_id", [0, 10**6, 2**40])
def test_unknown_trial_is_not_found(client, failed, trial_id):
    assert client.get(f"{STUDIES}/{failed[0]}/trials/{trial_id}").status_code == 404


def test_trial_of_another_study_is_not_found(world, client, failed):
    other_id = world.complete("other")
    assert client.get(f"{STUDIES}/{other_id}/trials/{failed[1]}").status_code == 404


def test_events_of_one_trial_are_listed(client, failed):
    study_id, trial_id = failed
    every = client.get(f"{STUDIES}/{study_id}/events").json()["events"]
    of_trial = client.get(f"{STUDIES}/{study_id}/events", params={"trial": trial_id}).json()["events"]
    assert of_trial == [event for event in every if event["trial_id"] == trial_id]
    assert 0 < len(of_trial) < len(every)
