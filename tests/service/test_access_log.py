"""Who requested what: the access log and the events of a study."""

from __future__ import annotations

import json
import logging

import pytest

from bln_search.core.enums import Scope
from bln_search.core.logs import JsonLinesFormatter, PlainLinesFormatter
from tests.support.service_world import STUDIES, body


def requests_of(caplog):
    return [record for record in caplog.records if record.name == "service.access"]


def test_request_is_logged_with_its_client_account_token_and_path(world, caplog):
    caplog.set_level(logging.INFO)
    client = world.client()
    study_id = client.post(STUDIES, json=body()).json()["id"]
    answer = client.post(f"{STUDIES}/{study_id}/cancel")
    record = requests_of(caplog)[-1]
    assert record.getMessage() == f"POST {STUDIES}/{study_id}/cancel 200"
    token_id = world.ledger.tokens.find_bearer(world.secrets["ada", Scope.WRITE]).token_id
    line = json.loads(JsonLinesFormatter().format(record))
    expected = {"client": "testclient", "account": "ada", "token_id": token_id, "study_id": study_id}
    assert {name: line[name] for name in expected} == expected
    words = PlainLinesFormatter().format(record).split()
    assert {f"{name}={value}" for name, value in expected.items()} <= set(words)
    assert f"request_id={answer.headers['x-request-id']}" in words


def test_request_without_a_token_has_no_account(world, caplog):
    caplog.set_level(logging.INFO)
    world.client(None).get(STUDIES)
    line = json.loads(JsonLinesFormatter().format(requests_of(caplog)[-1]))
    assert line["client"] == "testclient"
    assert "account" not in line


@pytest.mark.parametrize("path", ["/a%0Ab", "/%1b[2J", "/caf%C3%A9"])
def test_path_adds_no_line_to_the_log(world, caplog, path):
    caplog.set_level(logging.INFO)
    world.client(None).get(path)
    message = requests_of(caplog)[-1].getMessage()
    assert message.isascii()
    assert message.isprintable()


def test_change_of_a_study_names_the_account_in_its_event(world):
    client = world.client("root", Scope.ADMIN)
    study_id = world.client().post(STUDIES, json=body()).json()["id"]
    for action in ("pause", "resume", "cancel"):
        client.post(f"{STUDIES}/{study_id}/{action}")
    client.patch(f"{STUDIES}/{study_id}", json={"notes": "mine"})
    events = client.get(f"{STUDIES}/{study_id}/events").json()["events"]
    assert [(event["kind"], event["data"]["account"]) for event in events] == [
        ("study_accepted", "ada"),
        ("study_paused", "root"),
        ("study_accepted", "root"),
        ("study_cancelled", "root"),
        ("study_changed", "root"),
    ]


def test_request_to_a_running_study_names_the_account_in_its_event(world):
    study_id = world.client().post(STUDIES, json=body()).json()["id"]
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    for action in ("pause", "resume"):
        world.client().post(f"{STUDIES}/{study_id}/{action}")
    events = {event.kind: event.data for event in world.ledger.events.list_events(study_id)}
    assert events["pause_requested"] == events["request_withdrawn"] == {"account": "ada"}


def test_deletion_and_tokens_are_logged_with_the_account(world, caplog):
    caplog.set_level(logging.INFO)
    study_id = world.complete("mine")
    admin = world.client("root", Scope.ADMIN)
    admin.delete(f"{STUDIES}/{study_id}")
    token_id = admin.post("/api/v1/tokens", json={"account": "cyd"}).json()["id"]
    admin.delete(f"/api/v1/tokens/{token_id}")
    messages = [record.args for record in caplog.records if record.name.startswith("service.routes")]
    assert messages == [
        (study_id, "mine", "ada", "root"),
        (token_id, "cyd", Scope.READ, "root"),
        (token_id, "root"),
    ]
