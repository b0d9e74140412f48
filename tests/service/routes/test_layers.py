"""Per-layer configurations over HTTP and on pages."""

from __future__ import annotations

import json

import pytest

from bln_search.core.enums import LayerSearchAlgorithm, Scope
from bln_search.ranking.analysis import Analysis
from bln_search.reports.sentences.per_layer import per_layer_sentences
from tests.ranking.layers import REASON, per_layer_result
from tests.support.service_world import HTML_HEADERS


@pytest.fixture
def store_results(world):
    """Keeps results of a search with a complete study; its number."""

    def _keep(*results, name="done"):
        study_id = world.complete(name)
        world.ledger.analyses.save(
            study_id, world.ledger.analyses.count_trials_with_result(study_id), Analysis(layers=results)
        )
        return study_id

    return _keep


@pytest.fixture
def root(world):
    return world.client("root", Scope.ADMIN, **HTML_HEADERS)


def test_layers_are_404_before_analysis_and_without_search(world, client, store_results):
    answer = client.get(f"/api/v1/studies/{world.complete('new')}/layers")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:bln-search:problem:not-analysed")
    answer = client.get(f"/api/v1/studies/{store_results()}/layers", headers={"If-None-Match": "*"})
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:bln-search:problem:no-layers")
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/api/v1/studies/77/layers").status_code == 404


def test_layers_are_the_stored_results_with_sentences(world, client, store_results):
    result = per_layer_result(excluded={"TTTT": REASON})
    address = f"/api/v1/studies/{store_results(result)}/layers"
    response = client.get(address)
    (answer_layer,) = response.json()["layers"]
    assert answer_layer["result"] == result.model_dump(mode="json")
    assert answer_layer["sentences"] == per_layer_sentences(result)
    assert answer_layer["excluded_options"] == [f"Excluded in all 4 choices: TTTT ({REASON})."]
    conditional = client.get(address, headers={"If-None-Match": response.headers["etag"]})
    assert (conditional.status_code, conditional.content) == (304, b"")
    assert world.client("bob").get(address).status_code == 404
    assert world.client(None).get(address).status_code == 401


def test_new_result_has_a_new_etag(world, client, store_results):
    study_id = store_results(per_layer_result())
    address = f"/api/v1/studies/{study_id}/layers"
    before = client.get(address).headers["etag"]
    newer = Analysis(layers=(per_layer_result(marginal=False),))
    world.ledger.analyses.save(study_id, world.ledger.analyses.count_trials_with_result(study_id), newer)
    response = client.get(address, headers={"If-None-Match": before})
    assert response.status_code == 200
    assert response.json()["layers"][0]["result"]["marginal"] is False


def test_layers_page_is_linked_only_with_results(store_results, root):
    without, study_id = store_results(name="without"), store_results(per_layer_result())
    for number, link_count in ((without, 0), (study_id, 1)):
        for part in ("", "/leaderboard", "/charts"):
            text = root.get(f"/studies/{number}{part}").text
            assert text.count(f'href="/studies/{number}/layers"') == link_count, part
    for path in ("/layers", "/layers/switches.json", "/layers/switches.csv"):
        response = root.get(f"/studies/{without}{path}")
        assert response.status_code == 404
        assert "per-layer search" in response.text


def test_layers_page_shows_all_parts_of_a_search(store_results, root):
    study_id = store_results(per_layer_result(excluded={"TTTT": REASON}))
    response = root.get(f"/studies/{study_id}/layers")
    text = response.text
    assert response.status_code == 200
    assert f'<a href="/studies/{study_id}/layers" aria-current="page">Per layer</a>' in text
    assert "significantly better by 0.0120 [0.0040, 0.0200] nats" in text
    assert '<th scope="col" class="code">norm3</th>' in text
    assert text.count('<td class="code">FFFF</td>') >= 30
    assert "best uniform" in text
    assert "\N{MINUS SIGN}0.030 ± 0.015 •" in text
    assert f"<li>Excluded in all 4 choices: TTTT ({REASON}).</li>" in text
    assert "style=" not in text
    assert 'name="result"' not in text  # there is one
    chart_response = root.get(f"/studies/{study_id}/layers/switches.json").json()
    assert chart_response["figure"]["data"][0]["type"] == "bar"
    assert root.get(f"/studies/{study_id}/layers/switches.csv").text.count("\n") == 17
    assert root.get(f"/studies/{study_id}/charts/per-layer.json").json()["figure"] == chart_response["figure"]


def test_deep_network_and_unsearched_study_have_a_page(store_results, root):
    deep = per_layer_result(56, search=LayerSearchAlgorithm.BEAM, marginal=False, rows=100)
    text = root.get(f"/studies/{store_results(deep, name='deep')}/layers").text
    assert "around the best configuration" in text
    assert '<th scope="col" class="code">norm55</th>' in text
    empty = store_results(per_layer_result(networks=0, pending_seeds=(0, 1)), name="empty")
    text = root.get(f"/studies/{empty}/layers").text
    assert "No network is searched yet." in text
    assert "<table" not in text
    assert root.get(f"/studies/{empty}/layers/switches.json").json()["figure"] is None
    assert root.get(f"/studies/{empty}/layers/switches.csv").status_code == 404


def test_query_parameters_select_arm_and_point(store_results, root):
    points = [json.dumps({"arm.lambda": n / 10}) for n in range(2)]
    study_id = store_results(*(per_layer_result(n + 1, point=point) for n, point in enumerate(points)))
    first = root.get(f"/studies/{study_id}/layers").text
    assert "lambda=0.1" in first
    assert "norm1</th>" not in first
    second = root.get(f"/studies/{study_id}/layers?result=1").text
    assert "norm1</th>" in second
    assert f"/studies/{study_id}/layers/switches?result=1" in second
    assert root.get(f"/studies/{study_id}/layers?result=9").status_code == 200
    assert root.get(f"/studies/{study_id}/layers?result=x").status_code == 422
