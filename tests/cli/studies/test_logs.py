"""`bln-search logs` prints the event log of a study, from the database as from a service."""

from __future__ import annotations

import json
import threading

import pytest

from bln_search.core.states import FailureClass
from tests.support.service_world import finish_trial, study


@pytest.fixture
def logged(world):
    """A complete study of two trials."""
    return world.complete("logged")


@pytest.mark.parametrize("from_service", [False, True], ids=["database", "service"])
def test_events_are_those_of_the_study_in_their_order(from_service, logged, world, records, service):
    printed = records("logs", "logged", *(service if from_service else ()))
    stored = world.ledger.events.list_events(logged)
    assert [(record["number"], record["event"], record["trial"]) for record in printed] == [
        (event.number, event.kind, event.trial_id) for event in stored
    ]
    assert [record["data"] for record in printed] == [dict(event.data) for event in stored]
    epochs = [record for record in printed if record["event"] == "epoch"]
    assert [(record["arm"], record["seed"], record["data"]["epoch"]) for record in epochs] == [
        ("bln", 0, 1),
        ("bln", 0, 2),
        ("bln", 1, 1),
        ("bln", 1, 2),
    ]
    assert "validation loss 0.6000" in epochs[0]["message"]


def test_one_trial_and_the_newest_events_can_be_chosen(logged, world, records):
    trial = world.ledger.trials.list_trials(logged)[1].id
    of_trial = records("logs", "logged", "--trial", trial)
    assert {record["trial"] for record in of_trial} == {trial}
    assert records("logs", "logged", "--trial", trial, "--limit", 2) == of_trial[-2:]


def test_a_failure_is_told_with_its_reason(world, invoke):
    study_id = world.queue.submit_study(study("failing", seeds=(0,)), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    trial = world.ledger.trials.list_claimable_trials(study_id)[0]
    token = world.ledger.attempts.claim_trial(trial.id, "host/1/0")
    world.ledger.attempts.record_failure(token, FailureClass.USER_ERROR, "no memory [left]", again=False)
    printed = " ".join(invoke("logs", "failing").stdout.split())  # a narrow terminal wraps it
    assert printed.endswith(f"trial {trial.id} (bln seed 0): attempt failed: no memory [left]")


def test_csv_has_an_event_per_row(logged, world, in_every_format):
    printed = in_every_format("logs", "logged")
    assert len(printed.csv) == len(printed.json) == len(world.ledger.events.list_events(logged))


def test_a_running_study_is_followed_to_its_end(world, invoke, monkeypatch):
    monkeypatch.setattr("bln_search.cli.sources.ledger._POLL_SECONDS", 0.01)
    study_id = world.queue.submit_study(study("running", seeds=(0,)), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")

    def _finish():
        for trial in world.ledger.trials.list_claimable_trials(study_id):
            finish_trial(world.ledger, trial)
        world.ledger.studies.finish_run(study_id, runner="host/1/0")

    run = threading.Timer(0.3, _finish)
    run.start()
    followed = invoke("logs", "running", "--follow", "--format", "jsonl")
    run.join()
    printed = [json.loads(line) for line in followed.stdout.splitlines()]
    assert [record["number"] for record in printed] == list(range(1, len(printed) + 1))
    assert printed[-1]["event"] == "study_complete"


def test_following_a_complete_study_ends_at_once(logged, invoke, service):
    for words in ((), service):
        assert invoke("logs", "logged", "--follow", *words).exit_code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--trial", "999"), 2), (("--follow", "--format", "json"), 2), (("--follow", "--format", "csv"), 2)],
)
def test_what_cannot_be_printed_is_a_usage_error(words, code, logged, invoke):
    assert invoke("logs", "logged", *words).exit_code == code
