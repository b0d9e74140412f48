"""Query parameters and bodies of the REST API: unknown parameters, studies in YAML, other types of body."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from service.api_route import ApiRoute
from service.routes import (
    analysis,
    checkpoints,
    configurations,
    events,
    external_results,
    leaderboard,
    results,
    share_links,
    studies,
    tokens,
    trials,
    workers,
)
from tests.support.service_world import STUDIES, body, study

QUICKSTART = Path(__file__).parents[2] / "studies" / "quickstart.yaml"
YAML = {"Content-Type": "application/yaml"}


OF_STUDY = (results, leaderboard, checkpoints, trials, share_links, analysis, events)


@pytest.mark.parametrize("module", [studies, external_results, *OF_STUDY, configurations, tokens, workers])
def test_every_route_checks_its_requests(module):
    routes = [route for route in module.router.routes if isinstance(route, APIRoute)]
    assert routes
    assert all(isinstance(route, ApiRoute) for route in routes)


@pytest.mark.parametrize("media_type", ["application/yaml", "text/yaml; charset=utf-8", "application/x-yaml"])
def test_study_file_is_accepted_as_it_is(client, media_type):
    content = QUICKSTART.read_bytes()
    answer = client.post(STUDIES, content=content, headers={"Content-Type": media_type})
    assert (answer.status_code, answer.json()["name"]) == (201, "quickstart")
    plan = client.post(f"{STUDIES}/validate", content=content, headers={"Content-Type": media_type}).json()
    assert plan["digest"] == answer.json()["digest"]


def test_yaml_and_json_of_a_study_are_the_same_study(client):
    first = client.post(STUDIES, json=body("same"))
    text = "{name: same, data: {name: digits}, model: {name: mlp, widths: [8]}, arms: [{method: bln}], seeds: [0, 1]}"
    second = client.post(STUDIES, content=text, headers=YAML)
    assert (first.json()["id"], second.json()["new"]) == (second.json()["id"], False)


@pytest.mark.parametrize("content", ["- a", "a: [", "a: &x 1\nb: *x", "\xff".encode("latin-1"), "seeds: 2020-01-01"])
def test_yaml_that_is_no_study_is_a_problem(client, content):
    answer = client.post(STUDIES, content=content, headers=YAML)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:bln-search:problem:invalid")


def test_mistakes_in_yaml_have_their_pointers(client):
    answer = client.post(STUDIES, content="name: a\ntrainning: {epochs: 1}\n", headers=YAML).json()
    assert {error["pointer"] for error in answer["errors"]} == {"/data", "/model", "/arms", "/trainning"}


def test_yaml_is_not_parsed_without_a_token(world):
    assert world.client(None).post(STUDIES, content="a: [", headers=YAML).status_code == 401


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "text/plain", None])
@pytest.mark.parametrize(
    ("path", "accepted"),
    [
        (STUDIES, {"application/json", "application/yaml"}),
        ("/api/v1/tokens", {"application/json"}),
        ("/api/v1/session", {"application/json"}),
    ],
)
def test_other_types_of_body_are_415(client, media_type, path, accepted):
    headers = {} if media_type is None else {"Content-Type": media_type}
    answer = client.post(path, content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (415, "urn:bln-search:problem:media-type")
    assert accepted == {word.strip(":;,") for word in answer.json()["detail"].split(" Content-Type: ")[1].split()} - {
        "or"
    }


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (STUDIES, {"foo"}),
        (STUDIES, {"sate", "foo"}),
        ("/api/v1/tokens", {"owner"}),
        (f"{STUDIES}/1/events", {"since"}),
        ("/api/v1/session", {"x"}),
    ],
)
def test_unknown_query_parameters_are_rejected(world, client, path, names):
    world.queue.submit_study(study(), "ada")
    answer = client.get(path, params=dict.fromkeys(names, "1"))
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {f"/{name}" for name in names}


def test_unknown_key_is_compared_with_the_keys_of_its_request(world, client):
    path = f"{STUDIES}/{world.queue.submit_study(study(), 'ada').study_id}"
    assert (
        client.patch(path, json={"caption": "x"})
        .json()["detail"]
        .endswith("known here: name, notes, title, tags, add_tags, remove_tags, priority")
    )
    detail = client.post("/api/v1/tokens", json={"expires_in_days": 3}).json()["detail"]
    assert detail.endswith("known here: label, scope, account, days")
    assert "`days`" in client.post("/api/v1/tokens", json={"day": 3}).json()["detail"]


def test_empty_body_is_named_as_such(client):
    for path in ("/api/v1/tokens", STUDIES):
        answer = client.post(path, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "")
        assert "empty" in answer.json()["detail"]


def test_name_in_the_place_of_a_number_is_explained(client):
    for path in ("quickstart", "quickstart/leaderboard"):
        answer = client.get(f"{STUDIES}/{path}")
        assert answer.status_code == 404
        assert "/api/v1/studies?name=quickstart" in answer.json()["detail"]


def test_wrong_method_names_the_allowed_ones(client):
    answer = client.put(STUDIES)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert "GET, POST" in answer.json()["detail"]


def test_first_unknown_parameters_are_reported(client):
    """Suggestions for thousands of names would delay other requests."""
    answer = client.get(f"{STUDIES}?{'&'.join(f'limits{number}=1' for number in range(500))}")
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"/limits{number}" for number in range(50)]
