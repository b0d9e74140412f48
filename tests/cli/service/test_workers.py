"""`bln-search workers`; with --here it is the health check of a worker's container."""

from __future__ import annotations

import json
import re
import socket
from datetime import datetime, timedelta

import pytest
from typer.testing import CliRunner

from bln_search.cli.main import app
from bln_search.settings import load_settings
from bln_search.storage.leases import WORKER_TIMEOUT
from bln_search.storage.ledger import open_and_upgrade_ledger

HEADER = "name,device,version,started_at,heartbeat_at\n"


@pytest.fixture
def ledger():
    ledger = open_and_upgrade_ledger(load_settings().database_url)
    yield ledger
    ledger.close()


def call(*arguments):
    result = CliRunner().invoke(app, ["workers", *arguments])
    return result.exit_code, result.stdout


def test_here_fails_without_a_worker(ledger):
    assert call("--format", "csv") == (0, HEADER)
    assert call("--here", "--format", "csv") == (1, HEADER)


def test_here_ignores_workers_of_other_machines(ledger):
    ledger.workers.record_heartbeat("elsewhere/1/2.00", "cpu", "0")
    assert ["elsewhere/1/2.00", "cpu", "0"] in [line.split()[:3] for line in call()[1].splitlines()]
    assert call("--here", "--format", "csv") == (1, HEADER)


def test_here_succeeds_until_the_worker_times_out(ledger):
    name = f"{socket.gethostname()}/1/2.00"
    ledger.workers.record_heartbeat(name, "cpu", "0")
    code, output = call("--here")
    assert code == 0
    assert name in output
    ledger.workers.remove_worker(name)
    clock = ledger.database.clock
    ledger.database.clock = lambda: clock() - WORKER_TIMEOUT - timedelta(seconds=1)
    ledger.workers.record_heartbeat(name, "cpu", "0")
    assert call("--here", "--format", "csv") == (1, HEADER)


def test_workers_are_records(ledger):
    ledger.workers.record_heartbeat("elsewhere/1/2.00", "cpu", "0")
    (record,) = json.loads(call("--format", "json")[1])
    assert (record["name"], record["device"], record["version"]) == ("elsewhere/1/2.00", "cpu", "0")
    assert datetime.fromisoformat(record["heartbeat_at"]).tzinfo is not None


@pytest.mark.parametrize(
    ("executor", "option"),
    [
        ("ray", ("--ray-address", "127.0.0.1:1")),
        ("ray", ("--gpus-per-trial", "1")),
        ("fused or ray", ("--fused-trials", "4")),
    ],
)
def test_an_option_of_an_executor_needs_it(executor, option):
    result = CliRunner().invoke(app, ["worker", "--once", *option])
    assert result.exit_code == 2
    assert f"need{'' if executor == 'ray' else 's'} --executor {executor}" in " ".join(
        re.sub(r"\x1b\[[0-9;]*m|│", " ", result.stderr).split()
    )


def test_workers_of_a_service_are_listed(world, records, service, monkeypatch):
    world.ledger.workers.record_heartbeat("elsewhere/1/2.00", "cpu", "0")
    by_option = records("workers", *service)
    assert [record["name"] for record in by_option] == ["elsewhere/1/2.00"]
    _, server, _, token = service
    monkeypatch.setenv("BLN_SEARCH_SERVER", server)
    monkeypatch.setenv("BLN_SEARCH_TOKEN", token)
    assert records("workers") == by_option


def test_database_without_tables_is_one_clear_error(home, invoke):
    home.mkdir(parents=True)
    (home / "ledger.sqlite3").touch()
    failed = invoke("workers")
    assert failed.exit_code == 1
    assert "`bln-search db upgrade`" in str(failed.exception)


def test_no_worker_is_told_beside_the_output(ledger):
    result = CliRunner().invoke(app, ["workers"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.strip() == "no worker has sent a heartbeat within 30 s"
