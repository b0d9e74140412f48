"""Metrics of the task over HTTP, in the printed table and on the pages."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from bln_search.core.enums import Split
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import EvaluationState
from bln_search.ranking.metrics import MeanStd
from bln_search.reports.export import leaderboard_json, loss_and_task_metric_fields, row_from_json_fields
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.terminal.leaderboard import leaderboard_table
from bln_search.specs import parse_study
from tests.support.service_world import RUNNER, make_evaluations

STUDY = parse_study("""
name: regression
data: {name: diabetes, validation: 80}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
evaluation: {splits: [train]}
seeds: [0, 1]
""")
R2 = {0: 0.25, 1: 0.75}


def with_metrics(evaluation, seed):
    """The evaluation as that of a regression."""
    if evaluation.state is not EvaluationState.MEASURED:
        return evaluation
    return replace(evaluation, accuracy=None, metrics={"r2": R2[seed], "mean_absolute_error": evaluation.loss})


@pytest.fixture
def study_id(world):
    study_id = world.ledger.queue.submit_study(STUDY, "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    for trial in world.ledger.trials.list_claimable_trials(study_id):
        token = world.ledger.attempts.claim_trial(trial.id, RUNNER)
        digest = f"{trial.id:064x}"
        checkpoint = CheckpointRecord(f"{digest[-32:]}.safetensors", digest, 2, "FFFF", 0.5, {"seed": 0})
        world.ledger.attempts.record_checkpoint(token, checkpoint)
        evaluations = make_evaluations(trial.seed, clean_splits=trial.spec.evaluation.evaluated_splits)
        world.ledger.attempts.finish_trial(token, [with_metrics(item, trial.seed) for item in evaluations])
    world.ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id


@pytest.fixture
def board(world, study_id):
    return world.ledger.results.rank_rows_of_study(study_id, STUDY)


def leaderboard(client, study_id, **params):
    return client.get(f"/api/v1/studies/{study_id}/leaderboard", params={"limit": 200, **params})


def test_the_leaderboard_names_the_loss_and_the_metrics(client, study_id, board):
    page = leaderboard(client, study_id).json()
    assert page["loss"] == {"name": "squared error", "unit": "variances of the training targets"}
    directions = {metric["name"]: metric["higher_is_better"] for metric in page["metrics"]}
    assert directions == {"r2": True, "mean_absolute_error": False}
    printed = json.loads(leaderboard_json(board, loss_and_task_metric_fields(STUDY, board)))
    assert (printed["loss"], printed["metrics"]) == (page["loss"], page["metrics"])


def test_a_classification_has_its_loss_and_no_metrics(client, world):
    page = leaderboard(client, world.complete()).json()
    assert (page["loss"], page["metrics"]) == ({"name": "cross-entropy", "unit": "nats"}, [])


def test_rows_have_means_over_seeds(client, study_id, board):
    rows = leaderboard(client, study_id).json()["rows"]
    assert tuple(map(row_from_json_fields, rows)) == board.rows
    assert board.rows[0].metrics[Split.TRAIN].task_metrics["r2"] == MeanStd(0.5, pytest.approx(0.5**0.5 / 2))
    for split in ("train", "validation", "test"):
        assert rows[0][f"{split}_r2_mean"] == 0.5
    first = next(csv.DictReader(io.StringIO(leaderboard(client, study_id, format="csv").text)))
    for split in Split:
        value = board.rows[0].metrics[split].task_metrics["mean_absolute_error"]
        assert float(first[f"{split}_mean_absolute_error_mean"]) == value.mean
        assert float(first[f"{split}_mean_absolute_error_deviation"]) == value.deviation


@pytest.mark.parametrize("column", ["test_mean_absolute_error", "train_mean_absolute_error", "validation_r2"])
def test_rows_are_sorted_by_a_metric(client, study_id, column):
    for minus in ("", "-"):
        rows = leaderboard(client, study_id, sort=f"{minus}{column}").json()["rows"]
        values = [row[f"{column}_mean"] for row in rows if f"{column}_mean" in row]
        assert values == sorted(values, reverse=bool(minus))
        assert len(values) == 15


@pytest.mark.parametrize("sort", ["test_perplexity", "validation_", "r2", "train_r2:fog-3", "validation_r2:fog-3"])
def test_an_unknown_metric_orders_no_rows(client, study_id, sort):
    assert leaderboard(client, study_id, sort=sort).status_code == 422


def test_evaluations_have_metrics(client, study_id):
    items = client.get(f"/api/v1/studies/{study_id}/evaluations", params={"limit": 200}).json()["items"]
    assert {(item["metrics"].get("r2"), item["state"]) for item in items} == {
        *((value, "measured") for value in R2.values()),
        (None, "undefined"),
    }


def test_the_page_has_sortable_columns_of_metrics(client, world, study_id):
    text = client.get(f"/studies/{study_id}/leaderboard").text
    head = text.split("</thead>")[0]
    for column in ("validation_r2", "test_mean_absolute_error", "train_r2"):
        assert f"sort={column}" in head
    assert "Validation R²" in head
    assert "higher is better" in head
    cells = [len(re.findall("<td", row)) for row in text.split("<tbody")[1].split("</tr>")[:-1]]
    assert cells.count(max(cells)) == 15
    chosen = client.get(f"/studies/{study_id}/leaderboard", params={"columns": "test_r2"}).text.split("</thead>")[0]
    assert "sort=test_r2" in chosen
    assert "sort=validation_r2" not in chosen
    assert "_r2" not in client.get(f"/studies/{world.complete('plain')}/leaderboard").text


def test_printed_tables_have_the_metrics(board):
    console = Console(file=io.StringIO(), width=300)
    console.print(leaderboard_table(board, all_columns=True))
    text = console.file.getvalue()
    assert text.count("higher is better") == 1
    for table in (text, leaderboard_markdown(board)):
        assert "validation R²" in table
        assert "train MAE" in table
    assert "Validation R²" in leaderboard_latex(board)
