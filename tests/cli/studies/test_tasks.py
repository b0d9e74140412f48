"""A study whose networks predict numbers: table, pages, report and export speak of its loss, and of no accuracy."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import bln_search
from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import StudyState
from bln_search.data import load_data_set
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.specs import parse_study
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.in_process_executor import InProcessExecutor
from tests.support.watchers import RecordingWatcher

LOSS = "mean squared error in variances of the training targets"
STUDY = """
name: numbers
data: {name: diabetes, validation: 80}
model: {name: mlp, widths: [8]}
arms: [{method: bn}]
training: {epochs: 2, batch_size: 16}
seeds: [0, 1]
"""


@pytest.fixture
def study_id(world):
    """A finished study in the database of the command and of the service."""
    settings = world.settings
    environment = ExecutionEnvironment(settings.data_folder, settings.cache, FolderStore(settings.home / "checkpoints"))
    accepted = world.ledger.studies.store_study_once(parse_study(STUDY))
    assert run_study(world.ledger, accepted, InProcessExecutor(environment), RecordingWatcher()) is StudyState.COMPLETE
    assert compute_and_store_analysis(world.ledger, accepted, environment).no_better_than_class_prior is None
    return accepted


def test_the_table_has_losses_and_no_accuracies(study_id, invoke):
    printed = invoke("leaderboard", study_id, "--format", "json")
    assert printed.exit_code == 0
    rows = json.loads(printed.stdout)["rows"]
    assert len(rows) == 4
    assert {name for row in rows for name in row if "accuracy" in name and row[name] is not None} == set()
    assert [row["reason"] for row in rows] == [None] * 4
    assert all(0 < row["validation_loss_mean"] < 2 for row in rows)
    text = invoke("leaderboard", study_id).stdout
    assert LOSS in " ".join(text.split())
    assert "accuracy" not in text


def test_rest_gives_null_for_accuracies(study_id, world):
    client = world.client("root", "admin")
    rows = client.get(f"/api/v1/studies/{study_id}/leaderboard").json()["rows"]
    assert [row["validation_accuracy_mean"] for row in rows] == [None] * 4
    (curve, *_) = client.get(f"/api/v1/studies/{study_id}/curves").json()["items"]
    assert [epoch["validation_accuracy"] for epoch in curve["epochs"]] == [None, None]


@pytest.mark.parametrize("page", ["", "/leaderboard", "/charts", "/trials"])
def test_pages_have_no_accuracy_and_no_nats(study_id, world, page):
    answer = world.client("root", "admin", Accept="text/html").get(f"/studies/{study_id}{page}")
    assert answer.status_code == 200
    assert "nats" not in answer.text
    assert "ccuracy %" not in answer.text


def test_the_report_names_the_loss(study_id, invoke, tmp_path):
    assert invoke("report", study_id, "--output", tmp_path / "report.html").exit_code == 0
    text = (tmp_path / "report.html").read_text("utf-8")
    assert LOSS in text
    assert "loss (nats)" not in text
    assert "ccuracy %" not in text


def test_an_export_takes_raw_measurements_and_gives_the_units_of_the_data(study_id, invoke, tmp_path):
    exported = invoke("export", study_id, "--output", tmp_path / "exported", "--config", "TT--")
    assert exported.exit_code == 0, exported.stderr
    description = json.loads((tmp_path / "exported" / "configuration.json").read_text())
    assert (description["format"], description["task"], description["loss"]) == (6, "regression", LOSS)
    data = load_data_set("diabetes", tmp_path)
    network = bln_search.load(tmp_path / "exported")
    with torch.no_grad():
        predicted = network(torch.from_numpy(data.test_inputs)).numpy()
    errors = np.mean((predicted - data.test_labels) ** 2)
    training = prepared_training_targets(data)
    expected = description["figures"]["this_seed"]["test"]["loss"]
    assert errors / training.var() == pytest.approx(expected, rel=1e-5)
    assert description["figures"]["this_seed"]["test"]["accuracy"] is None


def prepared_training_targets(data):
    """The progression of the training patients, in its own units."""
    from bln_search.data.splits import split_training_and_validation_indices

    training, _ = split_training_and_validation_indices(data.train_labels, parse_study(STUDY).data)
    return data.train_labels[training]
