"""The page of a study."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from bln_search.core.code_identity import CodeIdentity, CodeVersion
from bln_search.core.records import EpochRecord
from bln_search.core.states import FailureClass
from bln_search.core.version import VERSION
from bln_search.specs.sections.seeds import SeedsUntilDecided
from bln_search.storage.engine import write_session
from bln_search.storage.events import EventRepository
from bln_search.storage.tables import AttemptRow
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.service_world import RUNNER, complete_study, finish_trial, start_study, study


def test_page_of_a_waiting_study_shows_no_results(world, root):
    number = world.ledger.queue.submit_study(study("waiting"), "ada").study_id
    assert "There are no results yet" in root.get(f"/studies/{number}").text
    assert "Nothing is measured yet" in root.get(f"/studies/{number}/leaderboard").text
    assert root.get(f"/studies/{number}/charts/curves.json").json()["figure"] is None


def test_completed_large_study_shows_its_final_table(world, root, monkeypatch):
    from service.pages import study as page

    monkeypatch.setattr(page, "_MAX_RESULTS_BEFORE_PAGE", 1)
    number = world.ledger.queue.submit_study(study("large", seeds=(0, 1, 2)), "ada").study_id
    world.ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
    first, *other_trials = world.ledger.trials.list_claimable_trials(number)
    finish_trial(world.ledger, first)
    root.get(f"/studies/{number}/parts/leading")
    for trial in other_trials:
        finish_trial(world.ledger, trial)
    assert "data-later" in root.get(f"/studies/{number}").text, "the script asks for the rest"
    world.ledger.studies.finish_run(number, runner="host/1/0")
    compute_and_store_analysis(world.ledger, number, None)
    assert "data-later" not in root.get(f"/studies/{number}/parts/leading").text
    assert "data-later" not in root.get(f"/studies/{number}").text


def test_event_during_rendering_comes_from_the_stream(world, root, monkeypatch):
    number = world.ledger.queue.submit_study(study("events"), "ada").study_id
    list_last = EventRepository.list_newest_events

    def list_after_another_event(events, study_id, limit):
        world.ledger.queue.pause(study_id)
        return list_last(events, study_id, limit)

    monkeypatch.setattr(EventRepository, "list_newest_events", list_after_another_event)
    text = root.get(f"/studies/{number}").text
    event_numbers = [int(value) for value in re.findall(r'<li value="(\d+)"', text)]
    assert event_numbers
    assert max(event_numbers) == int(re.search(r'data-last="(\d+)"', text)[1])


def test_page_says_which_arms_are_open_and_why_others_are_out(world, root):
    growing = study("growing").model_copy(update={"seeds": SeedsUntilDecided(until="decided", at_most=5)})
    number = world.ledger.queue.submit_study(growing, "ada").study_id
    assert "First look at 3 seeds." in root.get(f"/studies/{number}").text
    world.ledger.studies.lease_and_start(number, lambda _: True, RUNNER)
    for trial in world.ledger.trials.list_claimable_trials(number)[:3]:
        finish_trial(world.ledger, trial)
    text = "1 of 1 arms still open after 3 seeds; next look at 5 seeds."
    assert text in root.get(f"/studies/{number}/parts/cells").text
    world.ledger.trials.prune_waiting_trials(number, {"bln": "not needed: decided after 3 seeds"})
    world.ledger.studies.finish_run(number, runner=RUNNER)
    cells = root.get(f"/studies/{number}/parts/cells").text
    assert "Ended after 3 of at most 5 seeds." in cells
    assert "not needed: decided after 3 seeds" in cells
    assert root.get(f"/api/v1/studies/{number}/leaderboard").json()["rows"][0]["rank"] == 1


def test_leading_rows_without_a_value_are_a_sentence(world, root):
    study_id, trials = start_study(world.ledger, "diverged", "ada")
    for trial in trials:
        world.ledger.attempts.record_divergence(world.ledger.attempts.claim_trial(trial.id, RUNNER), "not finite")
    world.ledger.studies.finish_run(study_id, runner=RUNNER)
    text = root.get(f"/studies/{study_id}/parts/leading").text
    assert "No configuration was measured under every seed" in text
    assert "<table" not in text
    assert "<table" in root.get(f"/studies/{world.complete()}/parts/leading").text


def test_time_that_remains_is_shown_only_while_a_worker_runs(world, root):
    study_id, trials = start_study(world.ledger, "waits", "ada", epochs=20)
    token = world.ledger.attempts.claim_trial(trials[0].id, RUNNER)
    epochs = [EpochRecord(epoch, 0.5, 0.6, 0.7, 0.8, 3.0) for epoch in range(1, 8)]
    world.ledger.attempts.record_epochs(token, epochs)
    with write_session(world.ledger.database.engine) as session:
        session.execute(update(AttemptRow).values(started_at=datetime.now(UTC) - timedelta(hours=1)))
    addresses = (f"/studies/{study_id}", f"/studies/{study_id}/parts/head", "/studies")

    def remaining_times():
        return [re.findall(r"[,·] ([^<,·]*) left<", root.get(address).text) for address in addresses]

    assert remaining_times() == [[], [], []]
    world.ledger.workers.record_heartbeat(RUNNER, "cpu", VERSION)
    assert [len(times) for times in remaining_times()] == [1, 1, 1]
    world.ledger.queue.pause(study_id)
    world.ledger.attempts.record_failure(token, FailureClass.USER_ERROR, "stopped", again=False)
    world.ledger.studies.finish_run(study_id, runner=RUNNER)
    assert remaining_times() == [[], [], []]


def test_every_page_of_a_study_shows_that_its_code_changed(world, root):
    number = complete_study(world.ledger, "changed", "ada")
    pages = [f"/studies/{number}{page}" for page in ("", "/leaderboard", "/charts", "/trials", "/share")]
    assert not any("own_parts.py" in root.get(page).text for page in pages)
    assert root.get(f"/api/v1/studies/{number}").json()["code_changes"] == []
    version = CodeVersion(CodeIdentity(), "1.0", world.ledger.now(), ("own_parts.py",), is_accepted=True)
    code = world.ledger.studies.add_code_version(number, version)
    assert all("own_parts.py" in root.get(page).text for page in pages)
    assert root.get(f"/api/v1/studies/{number}").json()["code_changes"] == list(code.change_sentences)
