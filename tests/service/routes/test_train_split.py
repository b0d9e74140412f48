"""The training split over HTTP, on the pages, and in the plan of a study."""

from __future__ import annotations

import csv
import io
import re

import pytest

from bln_search.core.enums import Split
from bln_search.reports.export import row_from_json_fields
from bln_search.reports.formatting import confidence_interval_over_seeds, format_interval
from tests.support.service_world import body, study


@pytest.fixture
def study_id(world):
    return world.complete(splits="[train]")


@pytest.fixture
def board(world, study_id):
    return world.ledger.results.rank_rows_of_study(study_id, study(splits="[train]"))


def leaderboard(client, study_id, **params):
    return client.get(f"/api/v1/studies/{study_id}/leaderboard", params={"limit": 200, **params})


def test_leaderboard_has_the_training_loss_and_the_gap(client, study_id, board):
    rows = leaderboard(client, study_id).json()["rows"]
    assert tuple(map(row_from_json_fields, rows)) == board.rows
    first = next(csv.DictReader(io.StringIO(leaderboard(client, study_id, format="csv").text)))
    assert float(first["train_loss_mean"]) == board.rows[0].metrics[Split.TRAIN].loss.mean
    gap = board.rows[0].gaps[Split.TEST].mean
    assert float(first["test_gap_low"]) < gap < float(first["test_gap_high"])


@pytest.mark.parametrize("column", ["train_loss", "train_accuracy", "validation_gap", "test_gap"])
def test_rows_are_sorted_by_the_new_metrics(client, study_id, column):
    for minus in ("", "-"):
        rows = leaderboard(client, study_id, sort=f"{minus}{column}").json()["rows"]
        values = [row[f"{column}_mean"] for row in rows if f"{column}_mean" in row]
        assert values == sorted(values, reverse=bool(minus))
        assert len(values) == 15


@pytest.mark.parametrize("query", [{"sort": "train_gap"}, {"sort": "validation_gap:fog-3"}, {"on": "train"}])
def test_training_split_neither_ranks_nor_has_a_gap(client, study_id, query):
    assert leaderboard(client, study_id, **query).status_code == 422


def test_evaluations_are_filtered_by_the_training_split(client, study_id):
    items = client.get(f"/api/v1/studies/{study_id}/evaluations", params={"split": "train", "limit": 200}).json()[
        "items"
    ]
    assert {item["split"] for item in items} == {"train"}
    assert len(items) == 2 * 16


def test_page_has_sortable_columns_of_the_training_split(client, world, study_id, board):
    text = client.get(f"/studies/{study_id}/leaderboard").text
    head = text.split("</thead>")[0]
    for column in ("train_loss", "train_accuracy", "validation_gap", "test_gap"):
        assert f"sort={column}" in head
    cells = [len(re.findall("<td", row)) for row in text.split("<tbody")[1].split("</tr>")[:-1]]
    assert cells.count(max(cells)) == 15
    plain = client.get(f"/studies/{world.complete('plain')}/leaderboard").text
    assert "train_loss" not in plain
    assert "_gap" not in plain


def test_page_of_a_configuration_has_the_training_loss_and_the_gap(client, study_id, board):
    row = board.rows[0]
    text = client.get(f"/studies/{study_id}/configurations/{row.configuration}").text
    card = text.split("<h2>Train</h2>")[1].split("</div>")[0]
    assert format_interval(confidence_interval_over_seeds(row.metrics[Split.TRAIN].loss, row.seeds)) in card
    assert "<h2>Generalization gap</h2>" in text


def test_plan_counts_the_training_examples(client):
    sizes = {}
    for name, evaluation in {
        "plain": {},
        "all": {"splits": ["train"]},
        "few": {"splits": ["train"], "train_examples": "as_validation"},
    }.items():
        plan = client.post("/api/v1/studies/validate", json=body(evaluation=evaluation)).json()
        sizes[name] = plan["bytes"] / plan["evaluations"] / (4 + 1 / 8)
    validation, test = 144, 360
    assert sizes["plain"] == pytest.approx(validation + test, abs=1)
    assert sizes["all"] == pytest.approx(1437 + test, abs=1)
    assert sizes["few"] == pytest.approx(2 * validation + test, abs=1)
