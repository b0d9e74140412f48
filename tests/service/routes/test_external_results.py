"""Results of own networks over HTTP: stored as a complete study, with problems that name their place."""

from __future__ import annotations

import pytest

from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.external_results import RESULTS, results_body
from tests.support.service_world import HTML_HEADERS, STUDIES, body


def test_submitted_results_are_a_complete_study_with_its_location(client):
    response = client.post(RESULTS, json=results_body())
    assert response.status_code == 201
    document = response.json()
    assert response.headers["location"] == f"{STUDIES}/{document['id']}"
    assert (document["state"], document["kind"], document["owner"], document["new"]) == (
        *("complete", "external", "ada"),
        True,
    )
    assert document["progress"]["fraction"] == 1
    assert document["spec"]["external"]["examples"] == {"validation": 30, "test": 30}
    repeated = client.post(RESULTS, json=results_body())
    assert (repeated.status_code, repeated.json()["id"], repeated.json()["new"]) == (200, document["id"], False)


def test_leaderboard_and_analysis_are_those_of_any_study(world, client):
    study_id = client.post(RESULTS, json=results_body(networks=3)).json()["id"]
    compute_and_store_analysis(world.ledger, study_id, None)
    rows = client.get(f"{STUDIES}/{study_id}/leaderboard").json()["rows"]
    assert [row["rank"] for row in rows] == [*range(1, 16), None]
    assert {row["seeds"] for row in rows if row["rank"]} == {3}
    analysis = client.get(f"{STUDIES}/{study_id}/analysis").json()["analysis"]
    assert analysis["recommendation"]["arm"] == "network"
    assert len(client.get(f"{STUDIES}/{study_id}/evaluations?limit=200").json()["items"]) == 96


@pytest.mark.parametrize(
    ("place", "value", "pointer"),
    [
        (("evaluations", 2, "losses"), "?", "/evaluations/2/losses"),
        (("evaluations", 2, "batch_size"), 0, "/evaluations/2/batch_size"),
        (("evaluations", 2, "more"), 1, "/evaluations/2/more"),
        (("networks", 0, "name"), "run 1", "/networks/0"),
        (("name",), "No Name", "/name"),
        (("examples",), {"validation": 29, "test": 30}, "/evaluations/2/losses"),
    ],
)
def test_problem_names_its_place_and_nothing_is_stored(client, place, value, pointer):
    document = results_body()
    *parents, last = place
    node = document
    for part in parents:
        node = node[part]
    node[last] = value
    response = client.post(RESULTS, json=document)
    assert response.status_code == 422
    assert pointer in [error["pointer"] for error in response.json()["errors"]]
    assert client.get(STUDIES).json()["items"] == []


def test_number_that_is_not_finite_is_refused(client):
    text = client.build_request("POST", RESULTS, json=results_body()).content.decode()
    start = text.index('"loss":0.') + len('"loss":')
    headers = {"Content-Type": "application/json"}
    for number in ("NaN", "Infinity", "1e999"):
        hostile = text[:start] + number + text[text.index(",", start) :]
        assert client.post(RESULTS, content=hostile, headers=headers).status_code in (400, 422)


def test_large_bodies_are_read_for_results_with_a_token_only(world, client):
    sizes = {"largest_body": 1000, "largest_results": 200_000}
    world.context.settings = world.settings.model_copy(update=sizes)
    document = results_body()
    assert client.post(RESULTS, json=document).status_code == 201
    assert client.post(STUDIES, json=document).status_code == 413
    assert world.client(None).post(RESULTS, json=document).status_code == 401
    world.context.settings = world.settings.model_copy(update={**sizes, "largest_results": 2000})
    refused = client.post(RESULTS, json=document)
    assert refused.status_code == 413
    assert "2,000 bytes" in refused.json()["detail"]


def test_study_file_with_external_results_is_refused(client):
    study_id = client.post(RESULTS, json=results_body()).json()["id"]
    spec = client.get(f"{STUDIES}/{study_id}").json()["spec"]
    for address in (STUDIES, f"{STUDIES}/validate"):
        response = client.post(address, json=spec)
        assert response.status_code == 422
        assert [error["pointer"] for error in response.json()["errors"]] == ["/external"]


def test_what_needs_networks_or_a_run_is_refused(client):
    study_id = client.post(RESULTS, json=results_body()).json()["id"]
    for action in ("pause", "resume", "cancel", "retry-failed"):
        assert client.post(f"{STUDIES}/{study_id}/{action}").status_code == 409
    assert client.get(f"{STUDIES}/{study_id}/checkpoints/1").status_code == 404
    trials = client.get(f"{STUDIES}/{study_id}/trials").json()["items"]
    assert [trial["checkpoint"] for trial in trials] == [None, None]


def test_pages_show_networks_instead_of_training(world, client):
    study_id = client.post(RESULTS, json=results_body(title="<b>bold</b>")).json()["id"]
    compute_and_store_analysis(world.ledger, study_id, None)
    page = client.get(f"/studies/{study_id}", headers=HTML_HEADERS)
    assert page.status_code == 200
    assert "external results" in page.text
    assert "run 1" in page.text
    assert "<b>bold" not in page.text
    assert 'id="progress"' not in page.text
    assert 'data-name="curves"' not in page.text
    assert "external results" in client.get("/studies", headers=HTML_HEADERS).text
    for path in ("leaderboard", "charts", "configurations/FFFF?arm=network&batch_size=25", "charts/curves.json"):
        assert client.get(f"/studies/{study_id}/{path}", headers=HTML_HEADERS).status_code == 200
    other = client.post(STUDIES, json=body()).json()["id"]
    assert "external results" not in client.get(f"/studies/{other}", headers=HTML_HEADERS).text


def under_conditions(ranking="source", others=("dark", "clean"), n=20):
    """Results under further conditions, whose losses are those of other networks."""
    document = results_body(undefined="none", networks=1)
    for position, condition in enumerate(others):
        further = results_body(undefined="none", networks=2 + position, n=n)["evaluations"]
        document["evaluations"] += [
            {**evaluation, "network": 0, "condition": condition}
            for evaluation in further
            if evaluation["network"] == 1 + position
        ]
    sizes = {"validation": n, "test": n}
    return {**document, "ranking_condition": ranking, "conditions": dict.fromkeys(others, sizes)}


def test_conditions_are_columns_of_the_leaderboard_and_of_the_page(world, client):
    document = under_conditions()
    response = client.post(RESULTS, json=document)
    assert response.status_code == 201, response.text
    study_id = response.json()["id"]
    compute_and_store_analysis(world.ledger, study_id, None)
    board = client.get(f"{STUDIES}/{study_id}/leaderboard").json()
    assert set(board["conditions"]) == {"clean", "dark"}
    sent = {
        (each.get("condition", ""), each["configuration"], each["split"]): each["loss"]
        for each in document["evaluations"]
    }
    for row in board["rows"]:
        code = row["configuration"]
        assert row["validation_loss_mean"] == sent["", code, "validation"]
        for condition in ("dark", "clean"):
            shown = row["conditions"][condition]
            assert shown["test_loss_mean"] == sent[condition, code, "test"]
    worst = client.get(f"{STUDIES}/{study_id}/leaderboard?sort=validation_loss:worst").json()["rows"]
    values = [row["conditions"]["worst"]["validation_loss_mean"] for row in worst]
    assert values == sorted(values)
    page = client.get(f"/studies/{study_id}/leaderboard", headers=HTML_HEADERS).text
    for heading in ("dark validation loss", "clean validation loss"):
        assert heading in page
    assert "source" in client.get(f"/studies/{study_id}", headers=HTML_HEADERS).text


@pytest.mark.parametrize(("name", "stored"), [("source", ""), ("dark", "dark"), ("clean", "clean")])
def test_evaluations_are_selected_by_the_name_of_their_condition(client, name, stored):
    study_id = client.post(RESULTS, json=under_conditions()).json()["id"]
    items = client.get(f"{STUDIES}/{study_id}/evaluations?limit=200&condition={name}").json()["items"]
    assert len(items) == 32
    assert {item["condition"] for item in items} == {stored}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda body: body["conditions"].pop("dark"), "/evaluations/32/condition"),
        (lambda body: body["conditions"]["dark"].pop("test"), "/evaluations/33/split"),
        (lambda body: body["conditions"]["dark"].update(validation=21), "/evaluations/32/losses"),
        (lambda body: body.update(ranking_condition="dark"), ""),
        (lambda body: body.update(ranking_condition=""), ""),
        (lambda body: body["conditions"].update(worst={"test": 20}), "/conditions/worst"),
    ],
)
def test_wrong_conditions_name_their_place_and_nothing_is_stored(client, change, pointer):
    document = under_conditions()
    change(document)
    response = client.post(RESULTS, json=document)
    assert response.status_code == 422
    assert any(error["pointer"].startswith(pointer) for error in response.json()["errors"])
    assert client.get(STUDIES).json()["items"] == []


def regression_body():
    document = results_body(networks=2)
    for evaluation in document["evaluations"]:
        evaluation["correct"] = None
    return {**document, "score": {"name": "squared error", "unit": "m²", "has_accuracy": False}}


def test_a_regression_has_no_accuracy_and_no_nats_anywhere(world, client):
    response = client.post(RESULTS, json=regression_body())
    assert response.status_code == 201, response.text
    study_id = response.json()["id"]
    compute_and_store_analysis(world.ledger, study_id, None)
    board = client.get(f"{STUDIES}/{study_id}/leaderboard").json()
    assert {row["validation_accuracy_mean"] for row in board["rows"]} == {None}
    analysis = client.get(f"{STUDIES}/{study_id}/analysis").json()["analysis"]
    assert {row["accuracy"] for row in analysis["comparison"]["rows"]} == {None}
    assert analysis["recommendation"]["accuracy"] is None
    evaluations = client.get(f"{STUDIES}/{study_id}/evaluations?limit=200").json()["items"]
    assert {evaluation["accuracy"] for evaluation in evaluations} == {None}
    paths = ("", "/leaderboard", "/charts", "/parts/leading", "/configurations/FFFF?arm=network&batch_size=25")
    pages = [client.get(f"/studies/{study_id}{path}", headers=HTML_HEADERS) for path in paths]
    for page in pages:
        assert page.status_code == 200
        assert "accuracy" not in page.text.lower()
        assert "nats" not in page.text
    assert "mean squared error in m²" in pages[0].text


@pytest.mark.parametrize("missing", [True, False])
def test_correctness_must_fit_the_score(client, missing):
    document = results_body() if missing else regression_body()
    document["evaluations"][2]["correct"] = None if missing else results_body()["evaluations"][2]["correct"]
    response = client.post(RESULTS, json=document)
    assert response.status_code == 422
    assert "/evaluations/2/correct" in [error["pointer"] for error in response.json()["errors"]]
