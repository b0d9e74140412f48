"""Blended rows over HTTP, on pages, and for the commands that read a service."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import pytest

from bln_search.cli.sources.service import ServiceSource
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Scope, Split
from bln_search.ranking.grouping import group_losses_by_row
from bln_search.reports.export import row_from_json_fields
from tests.support.service_world import HTML_HEADERS, ClientOfLists, body, study

BLENDS = "[0.1, N16]"
LABELS = ("frozen@0.1", "frozen@N16")
ALL_ROWS = 16 + 2 * 15


@pytest.fixture
def study_id(world):
    return world.complete(blends=BLENDS)


@pytest.fixture
def board(world, study_id):
    return world.ledger.results.rank_rows_of_study(study_id, study(blends=BLENDS))


def test_study_with_blends_is_accepted_and_shown(client):
    sections = {"evaluation": {"blends": [0.1, "N16"]}}
    submitted = client.post("/api/v1/studies", json=body("asked", **sections))
    assert submitted.status_code == 201, submitted.text
    shown = client.get(f"/api/v1/studies/{submitted.json()['id']}").json()
    assert shown["spec"]["evaluation"]["blends"] == [0.1, "N16"]


@pytest.mark.parametrize("blends", [[1], ["N0"], [0.1, 0.1], 0.1, [True]])
def test_impossible_blend_is_one_error(client, blends):
    response = client.post("/api/v1/studies", json=body("asked", evaluation={"blends": blends}))
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert "blend" in error["detail"] or "blend" in str(error)


def test_leaderboard_has_a_row_for_each_blend(client, study_id, board):
    document = client.get(f"/api/v1/studies/{study_id}/leaderboard", params={"limit": 200}).json()
    assert tuple(map(row_from_json_fields, document["rows"])) == board.rows
    assert len(board.rows) == ALL_ROWS
    text = client.get(f"/api/v1/studies/{study_id}/leaderboard", params={"format": "csv"}).text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert sum("B" in row["configuration"] for row in rows) == 2 * 15
    assert all((row["population"] in LABELS) == ("B" in row["configuration"]) for row in rows)


@pytest.mark.parametrize("label", LABELS)
def test_lists_are_filtered_by_the_label_of_a_blend(client, study_id, label):
    query = {"estimate": label, "limit": 200}
    rows = client.get(f"/api/v1/studies/{study_id}/leaderboard", params=query).json()["rows"]
    assert {row["population"] for row in rows} == {label}
    assert len(rows) == 15
    items = client.get(f"/api/v1/studies/{study_id}/evaluations", params=query).json()["items"]
    assert {item["estimate"] for item in items} == {label}
    assert all(InferenceConfiguration(item["configuration"]).uses_blend for item in items)


@pytest.mark.parametrize("label", ["@0.1", "frozen@", "frozen@x", "frozen 0.1", "x" * 65])
def test_malformed_label_is_an_error(client, study_id, label):
    for path in ("leaderboard", "evaluations"):
        response = client.get(f"/api/v1/studies/{study_id}/{path}", params={"estimate": label})
        assert response.status_code == 422


def test_pages_show_and_filter_blended_rows(world, study_id, board):
    browser = world.client("ada", Scope.READ, **HTML_HEADERS)
    page = browser.get(f"/studies/{study_id}/leaderboard", params={"estimate": "frozen@0.1"}).text
    assert 'class="switch blend"' in page
    assert re.search(r'<option value="frozen@0.1" selected>', page)
    assert page.count("<td>frozen@0.1</td>") == 15
    row = next(row for row in board.rows if str(row.configuration) == "BBFF" and row.estimate == "frozen@N16")
    query = {"arm": "bln", "estimate": row.estimate, "batch_size": 25}
    page = browser.get(f"/studies/{study_id}/configurations/BBFF", params=query).text
    assert "population estimate frozen@N16" in page
    assert '<p class="big">dependent</p>' in page
    code = unescape(page)
    assert "validation_loader, blends=['N16'])" in code
    assert "--config BBFF --arm bln --batch-size 25 --estimate frozen@N16" in code
    assert "estimate='frozen@N16').rows" in code
    assert browser.get(f"/studies/{study_id}/configurations/BBFF", params={"estimate": "?"}).status_code == 422


def test_statistics_of_a_service_have_the_blended_rows(world, study_id):
    record = world.ledger.studies.get_by_name_or_id("done")
    expected = group_losses_by_row(world.ledger.results.list_evaluations_for_ranking(study_id), Split.TEST)
    losses = ServiceSource(ClientOfLists(world)).get_losses_by_row(record, Split.TEST)
    assert losses == expected
    assert {key.estimate for key in losses if key.configuration.uses_blend} == set(LABELS)
