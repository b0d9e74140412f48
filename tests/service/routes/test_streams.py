"""Arms of adaptation over HTTP: the ranked table, the page, and its charts."""

from __future__ import annotations

import pytest

from bln_search.core.enums import Scope
from bln_search.ranking.analysis import Analysis
from tests.support.service_world import HTML_HEADERS
from tests.support.study_streams import SECTIONS, study_streams


@pytest.fixture
def store(world):
    """Keeps the analysis of a complete study; its number."""

    def _store(streams=None, name="done", **sections):
        study_id = world.complete(name, **(sections or SECTIONS))
        results = world.ledger.analyses.count_trials_with_result(study_id)
        world.ledger.analyses.save(study_id, results, Analysis(streams=streams))
        return study_id

    return _store


@pytest.fixture
def root(world):
    return world.client("root", Scope.ADMIN, **HTML_HEADERS)


def test_streams_are_404_before_the_analysis_and_without_a_section(world, client, store):
    answer = client.get(f"/api/v1/studies/{world.complete('new', **SECTIONS)}/streams")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:bln-search:problem:not-analysed")
    answer = client.get(f"/api/v1/studies/{store(name='other', arms='[{method: bln}]')}/streams")
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:bln-search:problem:no-streams")
    assert client.get("/api/v1/studies/77/streams").status_code == 404


def test_streams_are_the_stored_rows_with_sentences(world, client, store):
    streams = study_streams()
    address = f"/api/v1/studies/{store(streams)}/streams"
    response = client.get(address)
    assert response.json()["streams"] == streams.model_dump(mode="json")
    assert any(line.startswith("Recommended: none F") for line in response.json()["sentences"])
    conditional = client.get(address, headers={"If-None-Match": response.headers["etag"]})
    assert (conditional.status_code, conditional.content) == (304, b"")
    assert world.client("bob").get(address).status_code == 404
    assert world.client(None).get(address).status_code == 401


def test_the_page_has_table_sentences_and_charts_and_is_linked_from_the_study(root, store):
    study_id = store(study_streams())
    page = root.get(f"/studies/{study_id}/streams")
    assert page.status_code == 200
    for text in ("tent F", "collapsed at 3", "Error over the stream", "Loss over the stream", "TEST LABELS"):
        assert text in page.text
    assert f'href="/studies/{study_id}/streams"' in root.get(f"/studies/{study_id}").text


def test_a_study_without_streams_has_no_page_and_no_link(root, store):
    study_id = store(arms="[{method: bln}]")
    assert root.get(f"/studies/{study_id}/streams").status_code == 404
    assert "/streams" not in root.get(f"/studies/{study_id}").text


def test_charts_are_figures_with_data_as_csv(root, store):
    address = f"/studies/{store(study_streams())}/streams"
    figure = root.get(f"{address}/errors.json").json()
    assert {trace["name"] for trace in figure["figure"]["data"]} >= {"none F", "none T", "tent F", "tent F: collapse"}
    assert root.get(f"{address}/losses.csv").text.startswith("arm,first mini-batch,condition,error,loss,collapsed\n")
    assert root.get(f"{address}/colours.json").status_code == 404
