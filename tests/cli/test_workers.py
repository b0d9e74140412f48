"""`bln-search workers` lists who is there; with --here it is the health check of a worker's container."""

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
from bln_search.storage.ledger import open_ledger


@pytest.fixture
def ledger():
    ledger = open_ledger(load_settings().database_url)
    yield ledger
    ledger.close()


def call(*words):
    done = CliRunner().invoke(app, ["workers", *words])
    return done.exit_code, done.stdout


def test_without_a_worker_only_here_is_a_failure(ledger):
    assert call() == (0, "")
    assert call("--here") == (1, "")


def test_a_worker_of_another_machine_is_not_here(ledger):
    ledger.workers.record_heartbeat("elsewhere/1/2.00", "cpu", "0")
    assert "elsewhere/1/2.00  cpu  0" in call()[1]
    assert call("--here") == (1, "")


def test_one_of_this_machine_is_here_until_it_is_silent(ledger):
    name = f"{socket.gethostname()}/1/2.00"
    ledger.workers.record_heartbeat(name, "cpu", "0")
    code, shown = call("--here")
    assert code == 0
    assert name in shown
    ledger.workers.remove(name)
    now = ledger.database.clock
    ledger.database.clock = lambda: now() - WORKER_TIMEOUT - timedelta(seconds=1)
    ledger.workers.record_heartbeat(name, "cpu", "0")
    assert call("--here") == (1, "")


def test_workers_are_records(ledger):
    ledger.workers.record_heartbeat("elsewhere/1/2.00", "cpu", "0")
    (record,) = json.loads(call("--format", "json")[1])
    assert (record["name"], record["device"], record["version"]) == ("elsewhere/1/2.00", "cpu", "0")
    assert datetime.fromisoformat(record["heartbeat_at"]).tzinfo is not None


@pytest.mark.parametrize("option", [("--ray-address", "127.0.0.1:1"), ("--gpus-per-trial", "1")])
def test_an_option_of_ray_without_ray_is_a_mistake(option):
    done = CliRunner().invoke(app, ["worker", "--once", *option])
    assert done.exit_code == 2
    assert "these options need --executor ray" in " ".join(re.sub(r"\x1b\[[0-9;]*m|│", " ", done.stderr).split())
