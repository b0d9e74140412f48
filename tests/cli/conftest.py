"""Calls of the command in this process, on a database or on a service."""

from __future__ import annotations

import csv
import io
import json
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from bln_search.cli.main import app
from bln_search.cli.output import choose_output_width, results
from bln_search.cli.studies import changes
from tests.support.service_world import World


@pytest.fixture
def world(home):
    """The service in this process; its database is that of the home of the test."""
    made = World(home)
    yield made
    made.close()


@pytest.fixture
def invoke():
    """A call of the command: its exit code, standard output and standard error."""

    def _invoke(*words, **more):
        return CliRunner().invoke(app, [str(word) for word in words], **more)

    return _invoke


@pytest.fixture
def records(invoke):
    """The records that a successful call prints as JSON Lines."""

    def _records(*words):
        done = invoke(*words, "--format", "jsonl")
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    return _records


@pytest.fixture
def in_every_format(invoke):
    """The output of a call in the formats for programs: JSON, JSON Lines, and rows of CSV."""

    def _in_every_format(*words):
        outputs = {}
        for name in ("json", "jsonl", "csv"):
            done = invoke(*words, "--format", name)
            assert done.exit_code == 0, done.output
            outputs[name] = done.stdout
        return SimpleNamespace(
            json=json.loads(outputs["json"]),
            jsonl=[json.loads(line) for line in outputs["jsonl"].splitlines()],
            csv=list(csv.DictReader(io.StringIO(outputs["csv"]))),
        )

    return _in_every_format


@pytest.fixture
def terminal(monkeypatch):
    """The input of a call answers as a user at a terminal."""
    monkeypatch.setattr(changes, "_is_terminal_interactive", lambda: True)


@pytest.fixture
def pipe(monkeypatch):
    """Lines are not wrapped, although the processes of pytest-xdist set COLUMNS."""
    monkeypatch.setattr(results, "width", choose_output_width({}, is_terminal=False))


@pytest.fixture
def service(world, monkeypatch):
    """Options of a call that asks the service for the studies of ada."""

    def _client(*, headers, **_):
        client = TestClient(world.app, headers=headers)
        world.clients.append(client)
        return client

    monkeypatch.setattr("bln_search.client.http_session.httpx.Client", _client)
    return ("--server", "http://testserver", "--token", world.secrets["ada", "write"])
