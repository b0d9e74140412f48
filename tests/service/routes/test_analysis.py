"""The analysis of a study over HTTP and on pages: verdicts, recommendation, probes."""

from __future__ import annotations

import re

import pytest

from bln_search.core.enums import ProbeKind, Scope
from bln_search.reports.sentences.recommendation import recommendation_headline
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.probes import probe, store_probes
from tests.support.service_world import body, read_all_pages

NAMES = ("variance", "differences", "batch-sizes", "epochs", "company", "latencies")


@pytest.fixture
def analysed(world):
    """A complete study with three seeds that was analysed."""
    study_id = world.complete(seeds=(0, 1, 2))
    return study_id, compute_and_store_analysis(world.ledger, study_id, None)


def test_analysis_is_404_until_a_worker_computed_it(world, client):
    study_id = world.complete()
    response = client.get(f"/api/v1/studies/{study_id}/analysis")
    assert response.status_code == 404
    assert response.json()["type"] == "urn:bln-search:problem:not-analysed"
    assert response.headers["retry-after"] == "1"
    assert (
        "Group"
        not in world.client("root", Scope.ADMIN, Accept="text/html").get(f"/studies/{study_id}/leaderboard").text
    )


@pytest.mark.parametrize("path", ["analysis", "layers"])
def test_analysis_of_an_unfinished_study_names_its_state(world, client, path):
    study_id = client.post("/api/v1/studies", json=body()).json()["id"]
    waiting = client.get(f"/api/v1/studies/{study_id}/{path}")
    assert waiting.json()["type"] == "urn:bln-search:problem:not-analysed"
    assert int(waiting.headers["retry-after"]) > 1
    world.ledger.studies.lease_and_start(study_id, lambda _: True, "host/1/0")
    world.ledger.studies.fail_unless_claimed(study_id, "host/1/0", "no memory")
    failed = client.get(f"/api/v1/studies/{study_id}/{path}")
    assert (failed.status_code, failed.json()["type"]) == (404, "urn:bln-search:problem:no-analysis")
    assert "failed" in failed.json()["detail"]
    assert "retry-after" not in failed.headers


def test_analysis_is_the_stored_one_with_sentences(client, analysed):
    study_id, analysis = analysed
    response = client.get(f"/api/v1/studies/{study_id}/analysis")
    assert response.json()["analysis"] == analysis.model_dump(mode="json")
    assert response.json()["sentences"][0].startswith("Recommended: bln ")
    conditional = client.get(
        f"/api/v1/studies/{study_id}/analysis", headers={"If-None-Match": response.headers["etag"]}
    )
    assert (conditional.status_code, conditional.content) == (304, b"")


def test_new_analysis_of_equal_results_is_shown_at_once(world, client, analysed):
    study_id, analysis = analysed
    address = f"/api/v1/studies/{study_id}/analysis"
    before = client.get(address).headers["etag"]
    newer = analysis.model_copy(update={"reason": "anew"})
    results = world.ledger.analyses.count_trials_with_result(study_id)
    world.ledger.analyses.save(study_id, results, newer)
    response = client.get(address, headers={"If-None-Match": before})
    assert response.status_code == 200
    assert response.json()["analysis"]["reason"] == "anew"


def test_leaderboard_shows_verdicts_and_recommendation(world, analysed):
    study_id, analysis = analysed
    page = world.client("root", Scope.ADMIN, Accept="text/html").get(f"/studies/{study_id}/leaderboard").text
    assert recommendation_headline(analysis.recommendation) in page
    cells = re.findall("<td>(best|worse|practically equal|cannot tell)</td>", page.rpartition("<tbody")[2])
    assert sorted(cells) == sorted(row.verdict for row in analysis.comparison.rows)
    other_split = world.client("root", Scope.ADMIN, Accept="text/html").get(f"/studies/{study_id}/leaderboard?on=test")
    assert "Verdict" not in other_split.text  # rows were compared on validation


def test_charts_use_stored_analysis_and_probes(world, analysed):
    study_id, _ = analysed
    root = world.client("root", Scope.ADMIN, Accept="text/html")
    chart_response = {name: root.get(f"/studies/{study_id}/charts/{name}.json").json() for name in NAMES}
    assert {name for name, chart in chart_response.items() if chart["figure"]} == {"differences"}  # no TTTT
    assert "bln-search probe" in chart_response["batch-sizes"]["about"]
    for trial in world.ledger.trials.list_finished_full_trials(study_id):
        sizes = [probe(batch_size=size, code=code) for size in (1, 4) for code in ("TTFF", "FFFF")]
        epochs = [probe(ProbeKind.EPOCH, batch_size=25, epoch=epoch) for epoch in (1, 2)]
        company = [probe(ProbeKind.RESHUFFLED, batch_size=25, flips=0.5, deviation=0.1)]
        store_probes(world.ledger, trial, *sizes, *epochs, *company)
    for name in ("batch-sizes", "epochs", "company"):
        assert root.get(f"/studies/{study_id}/charts/{name}.json").json()["figure"], name
        assert root.get(f"/studies/{study_id}/charts/{name}.csv").text.count("\n") > 1


def test_probes_are_paginated_and_hidden_from_other_accounts(world, client, analysed):
    study_id, _ = analysed
    trial = world.ledger.trials.list_finished_full_trials(study_id)[0]
    store_probes(world.ledger, trial, *(probe(batch_size=size) for size in range(1, 6)))
    address = f"/api/v1/studies/{study_id}/probes"
    items = read_all_pages(client, address, limit=2, kind="size")
    assert [item["batch_size"] for item in items] == [1, 2, 3, 4, 5]
    assert client.get(address, params={"kind": "epoch"}).json()["items"] == []
    assert client.get(address, params={"kind": "nothing"}).status_code == 422
    assert world.client("bob").get(address).status_code == 404
