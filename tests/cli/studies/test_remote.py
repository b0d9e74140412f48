"""`bln-search watch` and `submit --wait` print what `run` prints: the ranked table with the analysis."""

from __future__ import annotations

import json

import pytest

from bln_search.cli.studies import remote
from bln_search.core.errors import UnknownStudyError
from bln_search.core.states import FailureClass, StudyState
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.ended_process import name_of_ended_process
from tests.support.service_world import study


def test_the_table_has_groups_and_the_recommendation(world, invoke, service):
    study_id = world.complete("done", seeds=(0, 1, 2))
    compute_and_store_analysis(world.ledger, study_id, None)
    watched = invoke("watch", "done", *service)
    assert watched.exit_code == 0
    assert watched.stdout == invoke("leaderboard", "done").stdout
    assert "Recommended: " in watched.stdout


def test_without_an_analysis_the_table_says_when_it_is_there(world, invoke, service, monkeypatch):
    monkeypatch.setattr(remote, "_ANALYSIS_TIMEOUT", 0.01)
    study_id = world.complete("done")
    for output_format in ("table", "csv"):
        watched = invoke("watch", "done", "--format", output_format, *service)
        assert watched.exit_code == 0
        assert f"`bln-search analyze {study_id}`" in watched.stderr


def test_failed_trials_are_told_as_run_tells_them(world, invoke, service):
    study_id = world.queue.submit_study(study("failing", seeds=(0,)), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    trial = world.ledger.trials.list_claimable_trials(study_id)[0]
    token = world.ledger.attempts.claim_trial(trial.id, "host/1/0")
    world.ledger.attempts.record_failure(token, FailureClass.USER_ERROR, "no memory", again=False)
    world.ledger.studies.finish_run(study_id, runner="host/1/0")
    watched = invoke("watch", "failing", *service)
    assert watched.exit_code == 5
    assert "failed: bln seed 0: no memory" in watched.stderr.splitlines()


@pytest.mark.parametrize("words", [(), ("--quiet",)])
def test_submitting_prints_the_number_of_the_study(words, world, invoke, service, tmp_path):
    (tmp_path / "study.yaml").write_text(
        "name: sent\ndata: {name: digits}\nmodel: {name: mlp}\narms: [{method: bln}]\n"
    )
    sent = invoke("submit", tmp_path / "study.yaml", *words, *service)
    assert sent.exit_code == 0
    assert world.ledger.studies.get(int(sent.stdout)).name == "sent"
    assert (sent.stderr == "") == bool(words)


def test_submission_is_a_record(world, invoke, service, tmp_path):
    (tmp_path / "study.yaml").write_text(
        "name: sent\ndata: {name: digits}\nmodel: {name: mlp}\narms: [{method: bln}]\n"
    )
    sent, again = (
        json.loads(invoke("submit", tmp_path / "study.yaml", "--format", "json", *service).stdout) for _ in range(2)
    )
    assert sent == {"id": sent["id"], "name": "sent", "owner": "ada", "state": "accepted", "new": True}
    assert again == {**sent, "new": False}


def test_interrupt_of_watch_says_that_the_study_continues(world, invoke, service, monkeypatch):
    study_id = world.queue.submit_study(study("waiting"), "ada").study_id

    def interrupted(*_, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(remote.ServiceSource, "follow_events", interrupted)
    stopped = invoke("watch", study_id, *service)
    assert stopped.exit_code == 130
    assert f"`bln-search watch {study_id}`" in stopped.stderr
    assert "finished trials" not in stopped.stderr


def test_control_of_a_study_names_its_state_and_its_request(world, invoke, service):
    study_id = world.queue.submit_study(study("mine"), "ada").study_id
    assert "waits in the queue" in invoke("resume", study_id, *service).stderr
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    assert "is running, a pause is requested" in invoke("pause", study_id, *service).stderr
    world.ledger.studies.finish_run(study_id, runner="host/1/0")
    assert "is cancelled" in invoke("cancel", study_id, *service).stderr
    refused = invoke("pause", study_id, *service)
    assert "cannot pause a cancelled study; `bln-search resume`" in str(refused.exception)


def test_analysis_of_a_failed_study_is_an_error_that_names_the_state(world, invoke, service):
    study_id = world.queue.submit_study(study("failing"), "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    world.ledger.studies.fail_unless_claimed(study_id, "host/1/0", "no memory")
    failed = invoke("analyze", study_id, *service)
    assert failed.exit_code == 1
    assert failed.stderr.startswith("error: ")
    assert "is failed" in failed.stderr


def test_commands_of_the_database_say_that_they_use_no_service(world, invoke, monkeypatch):
    monkeypatch.setenv("BLN_SEARCH_SERVER", "http://service.example:8000")
    for words in (("verify", "second"), ("search-layers", "second")):
        failed = invoke(*words)
        assert isinstance(failed.exception, UnknownStudyError)
        assert "http://service.example:8000" in str(failed.exception)
        assert "bln-search list" not in str(failed.exception)
    without = invoke("verify", "second", "--database", world.settings.database_url)
    assert "service.example" not in str(without.exception)


def test_without_a_service_the_database_is_changed(world, invoke):
    """Also a study whose worker is gone: its process on this machine has ended."""
    study_id = world.queue.submit_study(study("mine"), "ada").study_id
    database = ("--database", world.settings.database_url)
    assert "is paused" in invoke("pause", "mine", *database).stderr
    assert "waits in the queue" in invoke("resume", "mine", *database).stderr
    world.ledger.studies.lease_and_start(study_id, lambda _: True, name_of_ended_process())
    assert "is cancelled" in invoke("cancel", "mine", *database).stderr
    assert world.ledger.studies.get(study_id).state is StudyState.CANCELLED
    assert invoke("cancel", "mine", *database, "--server", "http://testserver").exit_code == 2


def follow_until_told(invoke, world, monkeypatch, words):
    """Call a command that follows a study, until it has told something while no event came; then the study ends."""
    (study_id,) = [record.id for record in world.ledger.studies.list_studies()]

    def end_after_idling(_source, _study_id, _after=0, *, on_idle):
        for _ in range(3):
            on_idle()
        world.queue.cancel(study_id)
        yield from ()

    monkeypatch.setattr(remote.ServiceSource, "follow_events", end_after_idling)
    return invoke(*words).stderr


@pytest.mark.parametrize("verb", ["watch", "submit"])
@pytest.mark.parametrize("has_worker", [False, True])
def test_following_says_once_that_no_worker_is_running(world, invoke, service, monkeypatch, tmp_path, verb, has_worker):
    (tmp_path / "study.yaml").write_text(study("waiting").canonical_json())
    world.queue.submit_study(study("waiting"), "ada")
    if has_worker:
        world.ledger.workers.record_heartbeat("host/1/0", "cpu", "0")
    words = ("watch", "waiting") if verb == "watch" else ("submit", tmp_path / "study.yaml", "--wait")
    told = follow_until_told(invoke, world, monkeypatch, (*words, *service))
    assert told.count("no worker is running") == (0 if has_worker else 1)
