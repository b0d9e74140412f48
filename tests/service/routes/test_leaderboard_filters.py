"""Filters of the leaderboard over REST, the same in every format."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from bln_search.reports.export import row_from_json_fields
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.sampled_study import complete_sampled_study
from tests.support.service_world import HTML_HEADERS, read_all_pages


@pytest.fixture
def path(world):
    return f"/api/v1/studies/{world.complete(arms='[{method: bln}, {method: ln}]', batch_sizes='[5, 8]')}/leaderboard"


def read(client, path, **query):
    response = client.get(path, params={"limit": 200, **query})
    assert response.status_code == 200, response.text
    return response.json()["rows"]


def read_csv(client, path, **query):
    return list(csv.DictReader(io.StringIO(client.get(path, params={"format": "csv", **query}).text)))


@pytest.mark.parametrize("deterministic", [True, False])
def test_rows_are_selected_by_independence_of_the_mini_batch(client, path, deterministic):
    rows = read(client, path, deterministic=deterministic)
    assert rows == [
        row for row in read(client, path) if row_from_json_fields(row).configuration.is_deterministic is deterministic
    ]
    assert [row["configuration"] for row in read_csv(client, path, deterministic=deterministic)] == [
        row["configuration"] for row in rows
    ]


def test_equal_rows_are_collapsed_on_request(client, path):
    every, collapsed = read(client, path), read(client, path, collapse=True)
    assert "batch_sizes" not in every[0]
    assert sum(len(row["batch_sizes"]) for row in collapsed) == len(every)
    assert {tuple(row["batch_sizes"]) for row in collapsed if row["configuration"].startswith("TT")} == {(5, 8)}
    lines = read_csv(client, path, collapse=True)
    assert [line["batch_sizes"].split() for line in lines] == [[*map(str, row["batch_sizes"])] for row in collapsed]
    assert "batch_sizes" not in read_csv(client, path)[0]
    ranks = {(row["arm"], row["configuration"], row["batch_size"]): row["rank"] for row in every}
    assert all(ranks[row["arm"], row["configuration"], row["batch_size"]] == row["rank"] for row in collapsed)


def test_rows_that_read_populations_of_slots_depend_on_the_mini_batch(world, client):
    path = f"/api/v1/studies/{world.complete(batch_sizes='[5, 8]', per_slot='true')}/leaderboard"
    independent = {row["configuration"] for row in read(client, path, deterministic=True)}
    assert independent == {"TTFF"}
    collapsed = read(client, path, collapse=True)
    assert {row["configuration"] for row in collapsed if row["batch_sizes"] == [5, 8]} == {"TTFF"}
    assert (
        client.get(path.replace("/api/v1", ""), params={"deterministic": "true"}, headers=HTML_HEADERS).text.count(
            'name="row"'
        )
        == 1
    )


@pytest.mark.parametrize("output", ["latex", "markdown"])
def test_tables_name_every_size_of_a_collapsed_row(client, path, output):
    def batch_cells(**query):
        table = client.get(path, params={"format": output, **query}).text
        lines = [re.split(r" [&|] ", line) for line in table.splitlines() if " TT " in line or " T " in line]
        return [line[7] for line in lines]

    assert set(batch_cells()) == {"5", "8"}
    assert "5, 8" in set(batch_cells(collapse=True))


@pytest.mark.parametrize("output", ["latex", "markdown"])
def test_tables_have_groups_and_the_recommended_row_of_the_analysis(world, client, output):
    study_id = world.complete(batch_sizes="[5, 8]")
    path = f"/api/v1/studies/{study_id}/leaderboard"
    before = client.get(path, params={"format": output, "collapse": True})
    assert "recommended" not in before.text
    compute_and_store_analysis(world.ledger, study_id, None)
    table = client.get(
        path, params={"format": output, "collapse": True}, headers={"If-None-Match": before.headers["etag"]}
    )
    assert table.status_code == 200
    analysis = world.ledger.analyses.find_current_analysis(study_id).analysis
    code = str(analysis.recommendation.configuration)
    marked = [line for line in table.text.splitlines() if re.match(r"(\| )?\d+(\$\^\{\*\}\$|\\\*)", line)]
    assert [re.sub(r"[^TF]", "", "".join(re.split(r" [&|] ", line)[2:6])) for line in marked] == [code]
    on_test = client.get(path, params={"format": output, "on": "test"}).text
    assert "recommended" not in on_test


def test_collapsed_rows_are_paged(client, path):
    assert read_all_pages(client, path, collapse=True, limit=7) == read(client, path, collapse=True)
    first = client.get(path, params={"collapse": True, "limit": 7}).json()["next_cursor"]
    assert client.get(path, params={"limit": 7, "cursor": first}).status_code == 404


def test_parameters_select_points(world, client):
    path = f"/api/v1/studies/{complete_sampled_study(world, 'searched')}/leaderboard"
    low, high = (read(client, path, parameter=f"learning_rate{sign}0.012342") for sign in ("<=", ">="))
    assert [{json.loads(row["parameters"])["training.learning_rate"] for row in rows} for rows in (low, high)] == [
        {0.012341},
        {0.012344},
    ]
    both = client.get(path, params={"parameter": ["learning_rate>=0.012342", "learning_rate<=0.012342"]})
    assert both.json()["rows"] == []
    assert len(read_csv(client, path, parameter="learning_rate=0.012344")) == 16


@pytest.mark.parametrize("query", [{"parameter": "rate=1"}, {"parameter": "learning_rate"}, {"condition": "snow"}])
def test_unknown_filter_names_its_parameter(world, client, query):
    path = f"/api/v1/studies/{complete_sampled_study(world, 'searched')}/leaderboard"
    response = client.get(path, params=query)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [f"/{name}" for name in query]


def test_rows_under_a_condition_have_its_metrics(world, client):
    number = world.complete(conditions="[fog-2]")
    rows = read(client, f"/api/v1/studies/{number}/leaderboard", condition="fog-2")
    assert len(rows) == 15
    assert all(row["conditions"]["fog-2"]["validation_loss_mean"] for row in rows)
