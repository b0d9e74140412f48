"""Every error response is a problem document."""

from __future__ import annotations

import json

import pytest
from fastapi import APIRouter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from bln_search.core.enums import Scope
from bln_search.core.errors import StorageFullError
from service.app import make_app
from service.http.problems import MEDIA_TYPE
from tests.support.service_world import World, body

JSON_HEADERS = {"Content-Type": "application/json"}
FIELDS = {"type", "title", "status", "detail", "instance", "request_id", "errors"}


def is_problem(answer):
    assert answer.headers["content-type"] == MEDIA_TYPE
    document = answer.json()
    assert set(document) == FIELDS
    assert document["status"] == answer.status_code
    assert document["request_id"] == answer.headers["x-request-id"]
    return document


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("problems"))
    world.context.rate_limiter.max_per_minute = 10**9
    yield world
    world.close()


def test_unknown_paths_and_methods_are_problems(client):
    for path in ("/nowhere", "/api/v1/studies/1/nowhere", "/api/v1/studies/", "/redoc"):
        assert is_problem(client.get(path))["status"] == 404
    assert is_problem(client.put("/api/v1/studies"))["status"] == 405
    assert is_problem(client.post("/healthz"))["status"] == 405


@pytest.mark.parametrize("number", ["0", "-1", str(2**31), str(2**63), str(10**40), "x", "1e3", "%00", "１"])
def test_invalid_study_number_is_a_problem(client, number):
    assert is_problem(client.get(f"/api/v1/studies/{number}"))["status"] in (404, 422)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"name": NaN}',
        b'{"a": 1e999}',
        b"null",
        b'"study"',
        b"[]",
        b"1" * 5000,
    ],
)
def test_body_that_is_no_study_is_a_problem(client, content):
    for path in ("/api/v1/studies", "/api/v1/studies/validate", "/api/v1/tokens", "/api/v1/session"):
        response = client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert is_problem(response)["status"] in (400, 422), response.text


def test_oversized_body_is_rejected_before_it_is_read(world, client):
    large = json.dumps(body(title="x" * world.settings.largest_body))
    assert is_problem(client.post("/api/v1/studies", content=large))["status"] == 413

    def parts():
        for _ in range(100):
            yield b"x" * 100_000

    assert is_problem(client.post("/api/v1/studies", content=parts()))["status"] == 413


def test_text_invalid_in_a_database_is_rejected(client):
    study_id = client.post("/api/v1/studies", json=body()).json()["id"]
    for invalid_text in ("a\x00b", "\ud800"):
        raw = json.dumps({"notes": invalid_text})
        answer = client.patch(f"/api/v1/studies/{study_id}", content=raw, headers={"Content-Type": "application/json"})
        assert is_problem(answer)["status"] == 422
        raw = json.dumps(body(title=invalid_text))
        answer = client.post("/api/v1/studies", content=raw, headers={"Content-Type": "application/json"})
        assert is_problem(answer)["status"] == 422


def test_unexpected_error_reveals_no_details(world, caplog):
    router = APIRouter()

    @router.get("/broken")
    def broken():
        raise RuntimeError("the password is 1234")

    world.app = make_app(world.context)
    world.app.include_router(router)
    problem = is_problem(world.client().get("/broken"))
    assert problem["status"] == 500
    assert "1234" not in json.dumps(problem)
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.request_id == problem["request_id"]


def test_valid_request_id_is_returned(client):
    assert client.get("/healthz", headers={"X-Request-Id": "abc-123"}).headers["x-request-id"] == "abc-123"
    for request_id in ("a b", "x" * 65, "a;b", ""):
        assert client.get("/healthz", headers={"X-Request-Id": request_id}).headers["x-request-id"] not in (
            request_id,
            None,
        )


def test_missing_database_is_a_problem(world, client):

    with world.ledger.database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE token RENAME TO elsewhere"))
    problem = is_problem(client.get("/api/v1/studies"))
    assert problem["status"] == 503
    assert "sqlite" not in json.dumps(problem).lower()


def test_nothing_is_written_after_a_database_upgrade(world, client):
    path = f"/api/v1/studies/{client.post('/api/v1/studies', json=body()).json()['id']}"
    with world.ledger.database.engine.begin() as connection:
        before = connection.exec_driver_sql("SELECT version_num FROM bln_search_version").scalar_one()
        connection.exec_driver_sql("UPDATE bln_search_version SET version_num = '9999'")
    for answer in (
        client.post("/api/v1/studies", json=body("other")),
        client.patch(path, json={"notes": "mine"}),
        client.post(f"{path}/pause"),
        client.delete(path),
        client.post("/api/v1/tokens", json={"label": "new"}),
        client.post("/api/v1/session", json={"token": world.secrets["ada", Scope.WRITE]}),
    ):
        problem = is_problem(answer)
        assert (problem["status"], problem["type"]) == (503, "urn:bln-search:problem:upgraded")
        assert "restarted" in problem["detail"]
        assert answer.headers["retry-after"]
    assert [item["name"] for item in client.get("/api/v1/studies").json()["items"]] == ["study"]
    with world.ledger.database.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE bln_search_version SET version_num = '{before}'")
    assert client.post("/api/v1/studies", json=body("other")).status_code == 201


def test_full_disk_reveals_no_path(world, client, monkeypatch):
    def full(*_given, **_how):
        raise StorageFullError("no disk space left to write the database sqlite:////srv/secret/ledger.sqlite3")

    monkeypatch.setattr(type(world.ledger.queue), "submit_study", full)
    problem = is_problem(client.post("/api/v1/studies", json=body("full")))
    assert (problem["status"], problem["type"]) == (507, "urn:bln-search:problem:storage-full")
    assert "secret" not in json.dumps(problem)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYS = ("name", "title", "data", "model", "arms", "training", "seeds", "evaluation", "ranking", "space", "search")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANYTHING)
def test_any_json_gets_a_plan_or_a_problem(shared, content):
    response = shared.client().post("/api/v1/studies/validate", content=json.dumps(content), headers=JSON_HEADERS)
    assert is_problem(response)["status"] in (400, 422)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=3), st.sampled_from(KEYS), ANYTHING, st.text(max_size=12)
)
def test_any_change_of_a_study_gets_a_plan_or_a_problem(shared, changes, key, inner, name):
    content = {**body(), **changes}
    if isinstance(content.get(key), dict):
        content[key] = {**content[key], name: inner}
    response = shared.client().post("/api/v1/studies/validate", content=json.dumps(content), headers=JSON_HEADERS)
    if response.status_code != 200:
        assert is_problem(response)["status"] in (400, 422)


def test_thousands_of_errors_have_a_short_response(client):
    unknown_keys = json.dumps({f"key{number}": 0 for number in range(50_000)})
    for path in ("/api/v1/session", "/api/v1/studies"):
        problem = is_problem(client.post(path, content=unknown_keys, headers={"Content-Type": "application/json"}))
        assert len(problem["errors"]) <= 50
    sizes = {"evaluation": {"batch_sizes": list(range(1, 100_000))}}
    assert is_problem(client.post("/api/v1/studies/validate", json=body(**sizes)))["status"] == 422


def test_space_of_any_size_is_answered(client):
    for dimension in (
        {"kind": "int", "low": 1, "high": 10**30},
        {"kind": "int", "low": 1, "high": 10**400},
        {"kind": "choice", "values": [[number] for number in range(1, 9000)]},
    ):
        key = "model.widths" if dimension["kind"] == "choice" else "training.epochs"
        content = body(space={key: dimension}, search={"sampler": "random", "trials": 2})
        response = client.post("/api/v1/studies/validate", json=content)
        assert is_problem(response)["status"] == 422


def test_limits_apply_to_the_largest_point_of_a_space(client):
    space = {"model.widths": {"kind": "choice", "values": [[8], [60_000, 60_000]]}}
    content = body(space=space, search={"sampler": "random", "trials": 2})
    assert "8,192" in is_problem(client.post("/api/v1/studies/validate", json=content))["detail"]
    space = {"training.epochs": {"kind": "int", "low": 1, "high": 90_000}}
    content = body(space=space, search={"sampler": "random", "trials": 2})
    assert "100,000" in is_problem(client.post("/api/v1/studies/validate", json=content))["detail"]


@pytest.mark.parametrize(
    ("text", "detail"),
    [("name: x\nname: y\n", "line 2: the key `name` is repeated"), ("name: [", "line 1: "), ("", "empty"), ("- a", "")],
)
def test_invalid_yaml_is_a_problem_with_its_line(client, text, detail):
    response = client.post("/api/v1/studies", content=text, headers={"Content-Type": "application/yaml"})
    assert is_problem(response)["status"] == 422
    assert detail in response.json()["detail"]
