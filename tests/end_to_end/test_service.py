"""The service as people run it: processes, signals, kills."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import httpx
import psutil
import pytest

from bln_search.client.stream import iter_server_sent_events
from bln_search.core.states import StudyState
from bln_search.specs import load_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from tests.docs.pages import PAGES, blocks
from tests.end_to_end.commands import call
from tests.end_to_end.service import OneByOne, Service, until
from tests.end_to_end.small_study import STUDY, list_events, make_spec, run_alone, wait_until_complete

pytestmark = pytest.mark.xdist_group("service")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service with its worker for all tests that leave it running."""
    folder = tmp_path_factory.mktemp("service")
    made = Service(folder / "home", BLN_SEARCH_CACHE=str(folder / "cache")).start()
    yield made
    made.stop()


@pytest.fixture
def file(tmp_path):
    """A study file; its network trains in a second or two."""
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.replace("EPOCHS", "40"))
    return path


@pytest.mark.slow
def test_submit_and_wait_prints_what_run_prints(service, file, tmp_path):
    asked = ("--server", service.address)
    process = call("submit", file, "--wait", "--format", "csv", *asked, home=service.home, check=0)
    assert process.stdout == run_alone(file, tmp_path)
    assert "study complete" in process.stderr
    for verb in (("list", "--format", "json"), ("show", "small", "--format", "json"), ("leaderboard", "small")):
        here = call(*verb, home=service.home, check=0).stdout
        there = call(*verb, *asked, home=service.home, check=0).stdout
        assert there == here, verb
    again = call("submit", file, "--wait", *asked, home=service.home, check=0)
    assert "already submitted, is complete" in again.stderr
    assert "Recommended: bln " in again.stdout
    refused = call("submit", file, *asked, "--token", "none", home=service.home, check=1).stderr
    assert f"{service.address}: this token is unknown, revoked or expired" in refused


@pytest.mark.slow
def test_a_study_is_there_after_a_kill_right_after_its_201(tmp_path):
    service = Service(tmp_path / "home", "--no-worker").start()
    for number in range(5):
        with service.client() as client:
            accepted = client.submit(make_spec(1, f"s{number}"))
        service.kill()
        service.start()
        with service.client() as client:
            assert client.study(accepted["id"])["name"] == f"s{number}"
    service.stop()


@pytest.mark.slow
def test_a_stopped_service_hands_its_study_back_and_goes_on(file, tmp_path):
    file.write_text(STUDY.replace("EPOCHS", "200"))
    service = Service(tmp_path / "home").start()
    with service.client() as client:
        study = client.submit(make_spec(200))["id"]
        until(lambda: any(event["kind"] == "epoch" for event in list_events(service, study)), 60)
        below = service.descendants()
        assert service.stop() == 0
        assert not psutil.wait_procs(below, 5)[1]
        assert json.loads(call("show", study, "--format", "json", home=service.home).stdout)["state"] == "accepted"
    service.start()
    with service.client() as client:
        wait_until_complete(client, study)
        csv = call("leaderboard", study, "--format", "csv", home=service.home).stdout
    assert csv == run_alone(file, tmp_path)
    service.stop()


@pytest.mark.slow
def test_killed_worker_is_restarted_and_no_result_is_lost(service, file, tmp_path):
    file.write_text(STUDY.replace("EPOCHS", "200"))
    with service.client() as client:
        study = client.submit(make_spec(200))["id"]
        until(lambda: any(event["kind"] == "epoch" for event in list_events(service, study)), 60)
        for descendant in service.descendants():
            descendant.kill()
        wait_until_complete(client, study)
    csv = call("leaderboard", study, "--format", "csv", home=service.home).stdout
    assert csv == run_alone(file, tmp_path)


def kill_worker(service):
    """As a machine that loses its power: the worker and its processes, without a signal that they could handle."""
    worker = psutil.Process(service.worker.pid)
    processes = [worker, *worker.children(recursive=True)]
    for process in processes:
        if process.is_running():
            process.kill()
    service.worker.wait(10)
    psutil.wait_procs(processes[1:], 10)


@pytest.mark.slow
@pytest.mark.parametrize("is_observable", [True, False], ids=["process", "lease"])
def test_service_alone_resolves_the_study_of_a_killed_worker(is_observable, tmp_path):
    """At once if the process is known to have ended, otherwise when its lease has expired."""
    service = OneByOne(tmp_path / "home").start()
    with service.client() as client:
        cancelled = client.submit(make_spec(2000))["id"]
        until(lambda: any(event["kind"] == "epoch" for event in list_events(service, cancelled)), 60)
        if not is_observable:  # the worker is killed before it notices
            with closing(sqlite3.connect(service.home / "ledger.sqlite3")) as database, database:
                database.execute("UPDATE study SET runner = 'far/1/0' WHERE state = 'running'")
        killed_at = time.monotonic()
        kill_worker(service)
        assert is_observable or client.cancel(cancelled)["state"] == "running"
        client.cancel(cancelled)
        until(lambda: client.study(cancelled)["state"] == "cancelled", 10 if is_observable else 39)
        assert time.monotonic() - killed_at < (15 if is_observable else 45)  # the lease is 30 s
        client.delete(cancelled)
        assert list(client.studies()) == []
    assert service.stop() == 0


@pytest.mark.slow
def test_pause_cancel_and_resume_take_effect_within_seconds(service):
    with service.client() as client:
        study = client.submit(make_spec(2000))["id"]
        until(lambda: any(event["kind"] == "epoch" for event in list_events(service, study)), 60)
        start = time.monotonic()
        assert client.pause(study)["request"] == "pause"
        until(lambda: client.study(study)["state"] == "paused", 5)
        assert time.monotonic() - start < 5
        assert client.study(study)["progress"]["running"] == 0
        client.resume(study)
        until(lambda: client.study(study)["progress"]["running"] > 0, 30)
        client.cancel(study)
        until(lambda: client.study(study)["state"] == "cancelled", 5)
        client.delete(study)
        assert study not in [study["id"] for study in client.studies()]


@pytest.mark.slow
def test_client_with_lost_connections_gets_every_event_once(service):
    headers = {"Authorization": f"Bearer {service.token}", "Accept": "text/event-stream"}
    with service.client() as client:
        study = client.submit(make_spec(150))["id"]
        heard, drops = [], 0
        over = False
        while not over:
            headers["Last-Event-ID"] = str(heard[-1]["number"] if heard else 0)
            address = f"{service.address}/api/v1/studies/{study}/events"
            with httpx.stream("GET", address, headers=headers, timeout=30) as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                for taken, event in enumerate(iter_server_sent_events(stream.iter_lines())):
                    if event is None:
                        over = True
                        break
                    heard.append(event)
                    if drops < 20 and taken == drops % 7:
                        drops += 1
                        break
        assert drops == 20
        every = httpx.get(address, headers={"Authorization": headers["Authorization"]}, params={"limit": 1000}).json()
        assert [one["number"] for one in heard] == list(range(1, len(heard) + 1))
        assert heard == every["events"]
        assert heard[-1]["kind"] == "study_complete"


@pytest.mark.slow
def test_a_stream_ends_with_the_service(tmp_path):
    service = Service(tmp_path / "home").start()
    with service.client() as client:
        study = client.submit(make_spec(5000))["id"]
    headers = {"Authorization": f"Bearer {service.token}", "Accept": "text/event-stream"}
    address = f"{service.address}/api/v1/studies/{study}/events"
    with httpx.stream("GET", address, headers=headers, timeout=30) as stream:
        lines = stream.iter_lines()
        next(lines)
        service.process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        for _ in lines:
            pass
        assert time.monotonic() - start < 5
    assert service.process.wait(40) == 0
    assert service.stop() == 0


@pytest.mark.slow
def test_the_service_answers_before_it_has_worked_two_seconds(tmp_path):
    """Seconds of its processor, the database made in them; on a slow or shared core in units of what imports take."""
    before = os.times()
    libraries = "import alembic.command, fastapi, jinja2, pydantic_settings, sqlalchemy.orm, uvicorn"
    subprocess.run([sys.executable, "-c", libraries], check=True)
    after = os.times()
    imports = after.children_user + after.children_system - before.children_user - before.children_system
    service = Service(tmp_path / "home", "--no-worker").start()
    used = psutil.Process(service.process.pid).cpu_times()
    assert service.stop() == 0
    assert used.user + used.system < max(2, 3 * imports)


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_clear_error(service, tmp_path):
    port = service.address.rsplit(":", 1)[1]
    process = call("serve", "--port", port, "--no-worker", home=tmp_path / "other", process=True)
    assert process.returncode == 1
    assert process.stderr.strip().splitlines()[-1].startswith("error: cannot listen on 127.0.0.1 port")


@pytest.mark.slow
def test_a_service_that_is_not_there_is_one_clear_error(tmp_path, file):
    process = call("submit", file, "--server", "http://127.0.0.1:9", home=tmp_path / "home")
    assert process.returncode == 1
    assert "cannot be reached" in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1


@pytest.fixture
def quiet(tmp_path):
    """A service that trains nothing."""
    made = Service(tmp_path / "home", "--no-worker").start()
    yield made
    made.stop()


@pytest.mark.slow
def test_tokens_are_those_of_the_service_that_the_settings_name(quiet, tmp_path, monkeypatch):
    """A token that leaked must not go on because one of another database was revoked in its place."""
    here = tmp_path / "here"
    monkeypatch.setenv("BLN_SEARCH_SERVER", quiet.address)
    monkeypatch.setenv("BLN_SEARCH_TOKEN", quiet.token)
    process = call("token", "create", "--scope", "read", "--label", "leaked", home=here, check=0)
    assert f"a token of the service {quiet.address} for admin" in process.stderr
    (line,) = [row for row in call("token", "list", home=here, check=0).stdout.splitlines() if "leaked" in row]
    revoked = call("token", "revoke", line.split()[0], home=here, check=0)
    assert f"of the service {quiet.address} is revoked" in revoked.stderr
    asked = ("--server", quiet.address, "--token", process.stdout.strip())
    assert "unknown, revoked or expired" in call("list", *asked, home=here, check=1).stderr
    assert not (here / "ledger.sqlite3").exists()
    both = call("token", "list", "--server", quiet.address, "--database", "sqlite:///x", home=here, check=2)
    assert "either a database or a service" in both.stderr
    own = f"sqlite:///{tmp_path / 'own.sqlite3'}"
    call("db", "upgrade", "--database", own, home=here, check=0)
    assert call("token", "list", "--database", own, home=here, check=0).stdout == ""


@pytest.mark.slow
def test_watching_ends_where_a_study_waits_for_a_person(quiet, file):
    with closing(open_and_upgrade_ledger(f"sqlite:///{quiet.home / 'ledger.sqlite3'}")) as ledger:
        number = ledger.studies.store_study_once(load_study(file))
        ledger.studies.lease_and_start(number, lambda _: True, "host/1/0")
        assert ledger.studies.finish_run(number, exhausted=False, runner="host/1/0") is StudyState.INTERRUPTED
    watched = call("watch", number, "--server", quiet.address, home=quiet.home, check=5)
    assert f"study {number} is interrupted" in watched.stderr


@pytest.mark.slow
def test_the_client_of_the_page_prints_what_happens(service):
    (block,) = blocks(PAGES["service.md"], "python")
    code = block.text.replace("http://127.0.0.1:8000", service.address).replace("bln_...", service.token)
    process = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=240)
    assert process.returncode == 0, process.stderr
    assert "study_complete" in process.stdout
    assert "LeaderboardRow(rank=1" in process.stdout
