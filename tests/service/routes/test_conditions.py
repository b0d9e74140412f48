"""Metrics under conditions over HTTP, on the leaderboard page, and for the commands that read a service."""

from __future__ import annotations

import csv
import io
import re

import pytest

from bln_search.cli.sources.service import ServiceSource
from bln_search.core.enums import Split
from bln_search.ranking.grouping import group_losses_by_row
from bln_search.reports.export import row_from_json_fields
from tests.support.service_world import ClientOfLists, study

CONDITIONS = "[fog-2, {name: dim, corruption: contrast, severity: 5}]"
NAMES = ("fog-2", "dim", "mean", "worst")


@pytest.fixture
def study_id(world):
    return world.complete(conditions=CONDITIONS)


@pytest.fixture
def board(world, study_id):
    return world.ledger.results.rank_rows_of_study(study_id, study(conditions=CONDITIONS))


def test_leaderboard_has_the_metrics_of_each_condition(client, study_id, board):
    document = client.get(f"/api/v1/studies/{study_id}/leaderboard", params={"limit": 200}).json()
    assert document["conditions"] == ["fog-2", "dim"]
    assert tuple(map(row_from_json_fields, document["rows"])) == board.rows
    assert tuple(document["rows"][0]["conditions"]) == NAMES
    text = client.get(f"/api/v1/studies/{study_id}/leaderboard", params={"format": "csv"}).text
    first = next(csv.DictReader(io.StringIO(text)))
    worst = board.rows[0].conditions.worst[Split.TEST].loss.mean
    assert float(first["worst_test_loss_mean"]) == worst


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_sorted_by_a_condition(client, study_id, name):
    for minus in ("", "-"):
        query = {"limit": 200, "sort": f"{minus}test_loss:{name}"}
        rows = client.get(f"/api/v1/studies/{study_id}/leaderboard", params=query).json()["rows"]
        losses = [row["conditions"][name]["test_loss_mean"] for row in rows if "conditions" in row]
        assert losses == sorted(losses, reverse=bool(minus))
        assert len(losses) == 15
        assert "conditions" not in rows[-1]


def test_unknown_condition_is_one_error(client, world, study_id):
    query = {"sort": "test_loss:snow"}
    response = client.get(f"/api/v1/studies/{study_id}/leaderboard", params=query)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["detail"] == "there is no condition 'snow': choose one of fog-2, dim, mean, worst"
    clean = client.get(f"/api/v1/studies/{world.complete('clean')}/leaderboard", params={"sort": "test_loss:worst"})
    assert clean.status_code == 422


def test_evaluations_are_filtered_by_condition(client, study_id):
    path = f"/api/v1/studies/{study_id}/evaluations"
    counts = {}
    for name in ("clean", "fog-2", "dim", "snow"):
        items = client.get(path, params={"condition": name, "limit": 200}).json()["items"]
        assert {item["condition"] for item in items} <= {"" if name == "clean" else name}
        counts[name] = len(items)
    assert counts == {"clean": 64, "fog-2": 64, "dim": 64, "snow": 0}


def test_page_has_a_sortable_column_for_each_condition(client, study_id, board):
    page = f"/studies/{study_id}/leaderboard"
    text = client.get(page, params={"sort": "-validation_loss:dim"}).text
    headings = re.findall(r"sort=(-?validation_\w+%3A[\w-]+)", text.split("</thead>")[0])
    assert headings == [f"validation_{metric}%3A{name}" for name in NAMES for metric in ("loss", "accuracy")]
    assert text.count('aria-sort="descending"') == 1
    cells = [len(re.findall("<td", row)) for row in text.split("<tbody")[1].split("</tr>")[:-1]]
    assert cells.count(max(cells)) == 15
    assert client.get(page, params={"sort": "test_loss:snow"}).status_code == 422
    assert f"{board.rows[0].conditions.worst[Split.VALIDATION].loss.mean:.2f}"[:4] in text


def test_statistics_of_a_service_read_clean_losses(world, study_id):
    record = world.ledger.studies.get_by_name_or_id("done")
    expected = group_losses_by_row(world.ledger.results.list_evaluations_for_ranking(study_id), Split.TEST)
    assert ServiceSource(ClientOfLists(world)).get_losses_by_row(record, Split.TEST) == expected
