"""Studies over HTTP: submission, validation, plan, state and limits."""

from __future__ import annotations

import pytest

from bln_search.core.built_in_data_sets import BUILT_IN_DATA_SETS
from bln_search.core.states import StudyState
from tests.support.numbers import numbers_in
from tests.support.service_world import STUDIES, body, finish_trial, study


def test_accepted_study_has_its_location(client):
    response = client.post(STUDIES, json=body())
    assert response.status_code == 201
    document = response.json()
    assert response.headers["location"] == f"{STUDIES}/{document['id']}"
    assert (document["state"], document["owner"], document["new"]) == ("accepted", "ada", True)
    assert document["progress"] == {"trials": 2, "ended": 0, "running": 0, "failed": 0, "fraction": 0.0}
    assert document["spec"]["evaluation"]["correction"] == "bessel"  # every default is written out
    stored = client.get(response.headers["location"]).json()
    assert {**stored, "new": True} == document
    repeated = client.post(STUDIES, json=body())
    assert repeated.status_code == 200
    assert (repeated.json()["id"], repeated.json()["new"]) == (document["id"], False)


def test_idempotency_key_returns_its_study_and_rejects_another(client):
    key = {"Idempotency-Key": "k1"}
    first = client.post(STUDIES, json=body(), headers=key)
    repeated = client.post(STUDIES, json=body(), headers=key)
    assert (first.status_code, repeated.status_code) == (201, 200)
    conflicting = client.post(STUDIES, json=body("other"), headers=key)
    assert conflicting.status_code == 422
    assert conflicting.json()["type"] == "urn:bln-search:problem:key-reused"
    assert len(client.get(STUDIES).json()["items"]) == 1


HUGE = [(10**19, f"{STUDIES}/validate"), (10**30, STUDIES), (10**400, f"{STUDIES}/validate"), (-(10**400), STUDIES)]


@pytest.mark.parametrize(("number", "address"), HUGE)
@pytest.mark.parametrize(
    "sections",
    [
        lambda n: {"space": {"training.batch_size": {"kind": "int", "low": 1, "high": n}}},
        lambda n: {"space": {"training.batch_size": {"kind": "int", "low": n, "high": 9}}, "search": {"trials": 2}},
        lambda n: {"space": {"training.batch_size": {"kind": "int", "low": 1, "high": 9, "step": n}}},
        lambda n: {"space": {"training.learning_rate": {"kind": "float", "low": 0.1, "high": n}}},
        lambda n: {"space": {"training.batch_size": {"kind": "choice", "values": [1, n]}}},
        lambda n: {"data": {"name": "digits", "validation": n}},
        lambda n: {"data": {"name": "digits", "fraction": n}},
        lambda n: {"seeds": [n]},
        lambda n: {"training": {"epochs": n}},
        lambda n: {"training": {"learning_rate": n}},
        lambda n: {"model": {"name": "mlp", "widths": [n]}},
        lambda n: {"evaluation": {"batch_sizes": [n]}},
    ],
)
def test_huge_number_is_a_validation_error(client, sections, number, address):
    response = client.post(address, json=body(**sections(number)))
    assert response.status_code in (201, 200, 422), response.text
    if number > 10**20 and address == STUDIES and "learning_rate" not in str(sections(number)):
        assert response.status_code == 422, response.text


def test_body_with_too_many_values_has_one_error(client):
    """Each of half a million would have cost an error of its own."""
    for full in ({"arms": [0] * 300_000}, {"population": [0] * 300_000}, {"seeds": [[0]] * 150_000}):
        response = client.post(f"{STUDIES}/validate", json={**body(), **full})
        assert response.status_code == 422
        (error,) = response.json()["errors"]
        assert numbers_in(error["detail"]) == [50_000]


def test_every_error_of_a_study_has_its_pointer(client):
    invalid = body(arms=[{"method": "bln", "epsilom": 1}, {"method": "xyz"}], seeds=[0, -1])
    invalid["training"] = {"epochs": 0, "learning_rate": "fast"}
    response = client.post(STUDIES, json=invalid)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    pointers = {error["pointer"]: error["detail"] for error in problem["errors"]}
    assert {"/arms/0/epsilom", "/arms/1/method", "/seeds/1", "/training/epochs"} <= set(pointers)
    assert "did you mean `epsilon`" in pointers["/arms/0/epsilom"]
    assert problem["request_id"] == response.headers["x-request-id"]
    assert client.get(STUDIES).json()["items"] == []


@pytest.mark.parametrize(
    ("change", "pointer", "says"),
    [
        ({"data": {"name": "nowhere"}}, "/data/name", "choose one of cifar10, cifar100, diabetes, digits, imagenet"),
        ({"model": {"name": "os.system"}}, "/model/name", "there is no model"),
        ({"model": {"name": "lenet", "widths": [3]}}, "/model/name", "has no option 'widths'"),
        ({"data": {"name": "imdb"}}, "/model/name", "takes measurements, imdb consists of token ids: choose one of"),
        ({"data": {"name": "/etc/passwd"}}, "/data/name", "there is no data set"),
        (
            {"seeds": list(range(1000)), "arms": [{"method": "bln", "name": f"a{n}"} for n in range(11)]},
            "/seeds",
            "2,000",
        ),
        ({"training": {"epochs": 100_000}}, "/training", "100,000"),
        ({"model": {"name": "mlp", "widths": [60_000]}}, "/model", "8,192"),
        ({"space": {"training.learning_rate": {"kind": "float", "low": 0.1, "high": 0.5}}}, "", "sampler"),
    ],
)
def test_study_outside_the_limits_has_a_precise_error(client, change, pointer, says):
    for path in (STUDIES, f"{STUDIES}/validate"):
        response = client.post(path, json={**body(), **change})
        assert response.status_code == 422, response.text
        (error, *_) = response.json()["errors"]
        assert error["pointer"].startswith(pointer)
        assert says in error["detail"]


@pytest.mark.parametrize("name", BUILT_IN_DATA_SETS)
def test_plan_has_the_bytes_of_every_built_in_data_set(client, name):
    data = {"name": name, "standardization": "none"}
    document = client.post(f"{STUDIES}/validate", json=body(data=data, model={"name": "lstm"})).json()
    assert document["bytes"] > 0


def test_plan_counts_trials_and_evaluations(world, client):
    plan = client.post(f"{STUDIES}/validate", json=body(training={"epochs": 3, "batch_size": 1})).json()
    assert (plan["trials"], plan["evaluations"], plan["epochs"]) == (2, 32, 6)
    assert len(plan["undefined"]) == 12
    assert "Bessel" in plan["undefined"][0]["reason"]
    assert plan["seconds"] is None
    assert plan["bytes"] > 0
    world.complete()
    plan = client.post(f"{STUDIES}/validate", json=body(training={"epochs": 300})).json()
    assert plan["seconds"] == pytest.approx(0.01 * 600)
    assert plan["seconds_from"] == 4
    other_batch_size = body(training={"epochs": 300, "batch_size": 8})
    assert client.post(f"{STUDIES}/validate", json=other_batch_size).json()["seconds"] is None, (
        "no such mini-batches ran here"
    )


def test_requests_change_the_state_of_a_study(world, client):
    study_id = client.post(STUDIES, json=body()).json()["id"]
    path = f"{STUDIES}/{study_id}"
    assert client.post(f"{path}/pause").json()["state"] == "paused"
    assert client.post(f"{path}/resume").json()["state"] == "accepted"
    world.ledger.queue.claim_next_study("host/1/0", lambda _: True, 9)
    document = client.post(f"{path}/cancel").json()
    assert (document["state"], document["request"]) == ("running", "cancel")
    assert client.delete(path).status_code == 409
    world.ledger.studies.finish_run(study_id, exhausted=False, runner="host/1/0")
    assert client.get(path).json()["state"] == "cancelled"
    refused = client.post(f"{path}/retry-failed")
    assert refused.status_code == 409
    assert "`bln-search resume`" in refused.json()["detail"]
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404


def test_failed_trials_are_retried_on_request(world, client):
    study_id = client.post(STUDIES, json=body()).json()["id"]
    world.ledger.queue.claim_next_study("host/1/0", lambda _: True, 9)
    world.ledger.studies.fail_unless_claimed(study_id, "host/1/0", "the data set is not there")
    document = client.get(f"{STUDIES}/{study_id}").json()
    assert (document["state"], document["reason"]) == ("failed", "the data set is not there")
    document = client.post(f"{STUDIES}/{study_id}/retry-failed").json()
    assert (document["state"], document["reason"]) == ("accepted", None)


def test_progress_and_eta_follow_the_trials(world, client):
    study_id = world.ledger.queue.submit_study(study(seeds=range(4)), "ada").study_id
    path = f"{STUDIES}/{study_id}"
    assert client.get(path).json()["eta_seconds"] is None
    world.ledger.queue.claim_next_study("host/1/0", lambda _: True, 9)
    for finished_count, trial in enumerate(world.ledger.trials.list_claimable_trials(study_id), start=1):
        finish_trial(world.ledger, trial)
        document = client.get(path).json()
        assert document["progress"]["fraction"] == finished_count / 4
        assert document["eta_seconds"] >= 0
    world.ledger.studies.finish_run(study_id, runner="host/1/0")
    assert client.get(path).json()["eta_seconds"] == 0
    assert world.ledger.study_lists.find_study_item(study_id).state == StudyState.COMPLETE


@pytest.mark.parametrize(
    ("sections", "pointer"),
    [
        ({"training": {"batch_size": 200}}, "/training/batch_size"),
        ({"evaluation": {"batch_sizes": [25, 200]}}, "/evaluation/batch_sizes/1"),
        ({"probes": {"batch_sizes": [200]}}, "/probes/batch_sizes/0"),
    ],
)
def test_mini_batch_larger_than_every_split_is_rejected(client, sections, pointer):
    for path in (STUDIES, f"{STUDIES}/validate"):
        response = client.post(path, json=body("large", **sections))
        assert response.status_code == 422
        assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
        assert "larger than the validation split, which has 144" in response.json()["errors"][0]["detail"]


def test_open_studies_and_disk_space_are_limited(world, client):
    world.context.settings = world.settings.model_copy(update={"most_studies": 2})
    assert [client.post(STUDIES, json=body(f"s{n}")).status_code for n in range(3)] == [201, 201, 409]
    assert client.post(STUDIES, json=body("s0")).status_code == 200  # what is there already is answered
    world.context.settings = world.settings.model_copy(update={"free_bytes": 10**18})
    response = client.post(STUDIES, json=body("big"))
    assert response.status_code == 507
    assert response.json()["type"] == "urn:bln-search:problem:storage-full"
    assert client.get(STUDIES).status_code == 200


def test_requests_are_limited_per_minute(world, client):
    world.context.rate_limiter.max_per_minute = 3
    answers = [client.get(STUDIES) for _ in range(4)]
    assert [response.status_code for response in answers] == [200, 200, 200, 429]
    assert int(answers[3].headers["retry-after"]) <= 60
