"""Conditions, blends, the training split and metrics: over HTTP, on pages, and for commands that read a service."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html import unescape

import pytest
from rich.console import Console

from bln_search.cli.sources.service import ServiceSource
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import Split
from bln_search.core.records import CheckpointRecord
from bln_search.core.states import EvaluationState
from bln_search.ranking.grouping import group_losses_by_row
from bln_search.reports.export import leaderboard_json, loss_and_task_metric_fields, row_from_json_fields
from bln_search.reports.formatting import confidence_interval_over_seeds, format_interval
from bln_search.reports.publication import leaderboard_latex, leaderboard_markdown
from bln_search.reports.terminal.leaderboard import leaderboard_table
from bln_search.specs import parse_study
from tests.support.service_world import RUNNER, STUDIES, ClientOfLists, body, make_evaluations

NAMES = ("fog-2", "dim", "mean", "worst")
LABELS = ("frozen@0.1", "frozen@N16")
SECTIONS = {
    "conditions": {"conditions": "[fog-2, {name: dim, corruption: contrast, severity: 5}]"},
    "blends": {"blends": "[0.1, N16]"},
    "train": {"splits": "[train]"},
}
REGRESSION = parse_study("""
name: done
data: {name: diabetes, validation: 80}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
evaluation: {splits: [train]}
seeds: [0, 1]
""")
R2 = {0: 0.25, 1: 0.75}
COLUMNS = {
    "conditions": [f"{split}_{metric}:{name}" for name in NAMES for split, metric in [("test", "loss")]],
    "train": ["train_loss", "train_accuracy", "validation_gap", "test_gap"],
    "metrics": ["test_mean_absolute_error", "train_mean_absolute_error", "validation_r2"],
}


def complete_regression(world):
    """A complete study of a task without accuracy, with metrics; its evaluations are those of a classification."""
    study_id = world.ledger.queue.submit_study(REGRESSION, "ada").study_id
    world.ledger.studies.lease_and_start(study_id, lambda _: True, RUNNER)
    for trial in world.ledger.trials.list_claimable_trials(study_id):
        token = world.ledger.attempts.claim_trial(trial.id, RUNNER)
        digest = f"{trial.id:064x}"
        checkpoint = CheckpointRecord(f"{digest[-32:]}.safetensors", digest, 2, "FFFF", 0.5, {"seed": 0})
        world.ledger.attempts.record_checkpoint(token, checkpoint)
        evaluations = [
            replace(item, accuracy=None, metrics={"r2": R2[trial.seed], "mean_absolute_error": item.loss})
            if item.state is EvaluationState.MEASURED
            else item
            for item in make_evaluations(trial.seed, clean_splits=trial.spec.evaluation.evaluated_splits)
        ]
        world.ledger.attempts.finish_trial(token, evaluations)
    world.ledger.studies.finish_run(study_id, runner=RUNNER)
    return study_id


@pytest.fixture
def study_id(world, study_kind):
    return complete_regression(world) if study_kind == "metrics" else world.complete(**SECTIONS[study_kind])


@pytest.fixture
def board(world, study_id):
    return world.ledger.results.rank_rows_of_study(study_id, world.ledger.studies.get(study_id).spec)


of_kind = {kind: pytest.mark.parametrize("study_kind", [kind]) for kind in (*SECTIONS, "metrics")}


def leaderboard(client, study_id, **params):
    return client.get(f"{STUDIES}/{study_id}/leaderboard", params={"limit": 200, **params})


def first_csv_row(client, study_id):
    return next(csv.DictReader(io.StringIO(leaderboard(client, study_id, format="csv").text)))


@pytest.mark.parametrize("study_kind", [*SECTIONS, "metrics"])
def test_leaderboard_has_the_rows_of_the_library(client, study_id, board):
    assert tuple(map(row_from_json_fields, leaderboard(client, study_id).json()["rows"])) == board.rows


@of_kind["conditions"]
def test_rows_have_the_metrics_of_each_condition(client, study_id, board):
    document = leaderboard(client, study_id).json()
    assert document["conditions"] == ["fog-2", "dim"]
    assert tuple(document["rows"][0]["conditions"]) == NAMES
    worst = board.rows[0].conditions.worst[Split.TEST].loss.mean
    assert float(first_csv_row(client, study_id)["worst_test_loss_mean"]) == worst


@of_kind["blends"]
def test_each_blend_has_rows(client, study_id, board):
    assert len(board.rows) == 16 + 2 * 15
    rows = list(csv.DictReader(io.StringIO(leaderboard(client, study_id, format="csv").text)))
    assert sum("B" in row["configuration"] for row in rows) == 2 * 15
    assert all((row["population"] in LABELS) == ("B" in row["configuration"]) for row in rows)


@of_kind["train"]
def test_rows_have_the_training_loss_and_the_gap(client, study_id, board):
    first = first_csv_row(client, study_id)
    assert float(first["train_loss_mean"]) == board.rows[0].metrics[Split.TRAIN].loss.mean
    assert float(first["test_gap_low"]) < board.rows[0].gaps[Split.TEST].mean < float(first["test_gap_high"])


@of_kind["metrics"]
def test_rows_have_means_of_metrics_whose_names_and_loss_are_given(client, study_id, board):
    page, first = leaderboard(client, study_id).json(), first_csv_row(client, study_id)
    assert page["loss"] == {"name": "squared error", "unit": "variances of the training targets"}
    directions = {metric["name"]: metric["higher_is_better"] for metric in page["metrics"]}
    assert directions == {"r2": True, "mean_absolute_error": False}
    printed = json.loads(leaderboard_json(board, loss_and_task_metric_fields(REGRESSION, board)))
    assert (printed["loss"], printed["metrics"]) == (page["loss"], page["metrics"])
    for split in Split:
        assert page["rows"][0][f"{split}_r2_mean"] == 0.5
        value = board.rows[0].metrics[split].task_metrics["mean_absolute_error"]
        assert float(first[f"{split}_mean_absolute_error_mean"]) == value.mean
        assert float(first[f"{split}_mean_absolute_error_deviation"]) == value.deviation


def test_a_classification_has_its_loss_and_no_metrics(client, world):
    page = leaderboard(client, world.complete()).json()
    assert (page["loss"], page["metrics"]) == ({"name": "cross-entropy", "unit": "nats"}, [])


@pytest.mark.parametrize("study_kind", COLUMNS)
def test_rows_are_sorted_by_the_columns_of_the_study(client, study_id, study_kind):
    for column in COLUMNS[study_kind]:
        for minus in ("", "-"):
            rows = leaderboard(client, study_id, sort=f"{minus}{column}").json()["rows"]
            metric, _, condition = column.partition(":")
            shown = [row["conditions"][condition] for row in rows if "conditions" in row] if condition else rows
            values = [row[f"{metric}_mean"] for row in shown if f"{metric}_mean" in row]
            assert values == sorted(values, reverse=bool(minus))
            assert len(values) == 15


@pytest.mark.parametrize(
    ("study_kind", "query"),
    [
        ("train", {"sort": "train_gap"}),
        ("train", {"sort": "validation_gap:fog-3"}),
        ("train", {"on": "train"}),
        ("train", {"sort": "test_loss:worst"}),
        *(("metrics", {"sort": sort}) for sort in ("test_perplexity", "validation_", "r2", "validation_r2:fog-3")),
        *(("blends", {"estimate": label}) for label in ("@0.1", "frozen@", "frozen@x", "frozen 0.1", "x" * 65)),
    ],
)
def test_query_that_the_study_cannot_answer_is_refused(client, study_id, query):
    assert leaderboard(client, study_id, **query).status_code == 422
    if "estimate" in query:
        assert client.get(f"{STUDIES}/{study_id}/evaluations", params=query).status_code == 422


@of_kind["conditions"]
def test_unknown_condition_is_one_error(client, study_id):
    response = leaderboard(client, study_id, sort="test_loss:snow")
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["detail"] == "there is no condition 'snow': choose one of fog-2, dim, mean, worst"


@of_kind["blends"]
@pytest.mark.parametrize("label", LABELS)
def test_lists_are_filtered_by_the_label_of_a_blend(client, study_id, label):
    rows = leaderboard(client, study_id, estimate=label).json()["rows"]
    assert [row["population"] for row in rows] == [label] * 15
    query = {"estimate": label, "limit": 200}
    items = client.get(f"{STUDIES}/{study_id}/evaluations", params=query).json()["items"]
    assert {item["estimate"] for item in items} == {label}
    assert all(InferenceConfiguration(item["configuration"]).uses_blend for item in items)


@pytest.mark.parametrize(
    ("study_kind", "query", "count"),
    [
        *(("conditions", {"condition": name}, 64) for name in ("clean", "fog-2", "dim")),
        ("conditions", {"condition": "snow"}, 0),
        ("train", {"split": "train"}, 2 * 16),
    ],
)
def test_evaluations_are_filtered(client, study_id, query, count):
    ((name, value),) = query.items()
    items = client.get(f"{STUDIES}/{study_id}/evaluations", params={**query, "limit": 200}).json()["items"]
    assert len(items) == count
    assert {item[name] for item in items} <= {"" if value == "clean" else value}


@of_kind["metrics"]
def test_evaluations_have_metrics(client, study_id):
    items = client.get(f"{STUDIES}/{study_id}/evaluations", params={"limit": 200}).json()["items"]
    measured = {(value, "measured") for value in R2.values()}
    assert {(item["metrics"].get("r2"), item["state"]) for item in items} == {*measured, (None, "undefined")}


@pytest.mark.parametrize(
    ("study_kind", "columns"),
    [
        ("conditions", [f"validation_{metric}%3A{name}" for name in NAMES for metric in ("loss", "accuracy")]),
        ("train", ["train_loss", "train_accuracy", "validation_gap", "test_gap"]),
        ("metrics", ["validation_r2", "test_mean_absolute_error", "train_r2"]),
    ],
)
def test_page_has_a_sortable_column_for_each(client, world, study_id, columns):
    page = client.get(f"/studies/{study_id}/leaderboard").text
    head = page.split("</thead>")[0]
    assert [column for column in columns if f"sort={column}" not in head] == []
    cells = [len(re.findall("<td", row)) for row in page.split("<tbody")[1].split("</tr>")[:-1]]
    assert cells.count(max(cells)) == 15
    plain = client.get(f"/studies/{world.complete('plain')}/leaderboard").text
    assert [column for column in columns if f"sort={column}" in plain] == []


@of_kind["conditions"]
def test_page_is_sorted_by_a_condition(client, study_id, board):
    page = f"/studies/{study_id}/leaderboard"
    text = client.get(page, params={"sort": "-validation_loss:dim"}).text
    assert text.count('aria-sort="descending"') == 1
    assert client.get(page, params={"sort": "test_loss:snow"}).status_code == 422
    assert f"{board.rows[0].conditions.worst[Split.VALIDATION].loss.mean:.2f}"[:4] in text


@of_kind["blends"]
def test_pages_show_and_filter_blended_rows(client, study_id, board):
    page = client.get(f"/studies/{study_id}/leaderboard", params={"estimate": "frozen@0.1"}).text
    assert 'class="switch blend"' in page
    assert re.search(r'<option value="frozen@0.1" selected>', page)
    assert page.count("<td>frozen@0.1</td>") == 15
    query = {"arm": "bln", "estimate": "frozen@N16", "batch_size": 25}
    page = client.get(f"/studies/{study_id}/configurations/BBFF", params=query).text
    assert "population estimate frozen@N16" in page
    assert '<p class="big">dependent</p>' in page
    code = unescape(page)
    assert "validation_loader, blends=['N16'])" in code
    assert "--config BBFF --arm bln --batch-size 25 --estimate frozen@N16" in code
    assert "estimate='frozen@N16').rows" in code
    assert client.get(f"/studies/{study_id}/configurations/BBFF", params={"estimate": "?"}).status_code == 422


@of_kind["train"]
def test_page_of_a_configuration_has_the_training_loss_and_the_gap(client, study_id, board):
    row = board.rows[0]
    text = client.get(f"/studies/{study_id}/configurations/{row.configuration}").text
    card = text.split("<h2>Train</h2>")[1].split("</div>")[0]
    assert format_interval(confidence_interval_over_seeds(row.metrics[Split.TRAIN].loss, row.seeds)) in card
    assert "<h2>Generalization gap</h2>" in text


@of_kind["metrics"]
def test_tables_and_chosen_columns_have_the_metrics(client, study_id, board):
    chosen = client.get(f"/studies/{study_id}/leaderboard", params={"columns": "test_r2"}).text.split("</thead>")[0]
    assert "sort=test_r2" in chosen
    assert "sort=validation_r2" not in chosen
    console = Console(file=io.StringIO(), width=300)
    console.print(leaderboard_table(board, all_columns=True))
    text = console.file.getvalue()
    assert text.count("higher is better") == 1
    for table in (text, leaderboard_markdown(board)):
        assert "validation R²" in table
        assert "train MAE" in table
    assert "Validation R²" in leaderboard_latex(board)


@pytest.mark.parametrize("study_kind", ["blends", "conditions"])
def test_statistics_of_a_service_are_those_of_clean_rows(world, study_id):
    record = world.ledger.studies.get_by_name_or_id("done")
    expected = group_losses_by_row(world.ledger.results.list_evaluations_for_ranking(study_id), Split.TEST)
    assert ServiceSource(ClientOfLists(world)).get_losses_by_row(record, Split.TEST) == expected


def test_study_with_blends_is_accepted_and_shown(client):
    submitted = client.post(STUDIES, json=body("asked", evaluation={"blends": [0.1, "N16"]}))
    assert submitted.status_code == 201, submitted.text
    shown = client.get(f"{STUDIES}/{submitted.json()['id']}").json()
    assert shown["spec"]["evaluation"]["blends"] == [0.1, "N16"]


@pytest.mark.parametrize("blends", [[1], ["N0"], [0.1, 0.1], 0.1, [True]])
def test_impossible_blend_is_one_error(client, blends):
    response = client.post(STUDIES, json=body("asked", evaluation={"blends": blends}))
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert "blend" in str(error)


def test_plan_counts_the_training_examples(client):
    sizes = {}
    for name, evaluation in {
        "plain": {},
        "all": {"splits": ["train"]},
        "few": {"splits": ["train"], "train_examples": "as_validation"},
    }.items():
        plan = client.post(f"{STUDIES}/validate", json=body(evaluation=evaluation)).json()
        sizes[name] = plan["bytes"] / plan["evaluations"] / (4 + 1 / 8)
    validation, test = 144, 360
    assert sizes["plain"] == pytest.approx(validation + test, abs=1)
    assert sizes["all"] == pytest.approx(1437 + test, abs=1)
    assert sizes["few"] == pytest.approx(2 * validation + test, abs=1)
