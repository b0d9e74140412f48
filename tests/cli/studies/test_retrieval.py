"""A study of a retrieval from its file to table, REST, pages, report and files."""

from __future__ import annotations

import csv
import json

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.metric_description import RETRIEVAL_METRICS
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment, load_prepared_data
from bln_search.specs import parse_study
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_analysis
from tests.support.in_process_executor import InProcessExecutor
from tests.support.mnist_files import use_small_mnist
from tests.support.watchers import RecordingWatcher

STUDY = """
name: captions
task: {name: retrieval, similarity: order, margin: 0.05}
data: {name: mnist_pair_captions, validation: 2000, fraction: 0.02}
model: {name: order_embeddings, widths: [2, 3, 6], embedding: 4}
arms: [{method: none}, {method: ln}]
training: {epochs: 2, batch_size: 16}
seeds: [0, 1]
evaluation: {population: [frozen]}
"""


@pytest.fixture
def study_id(world, monkeypatch):
    """A finished study in the database of the command and of the service."""
    use_small_mnist(monkeypatch)
    settings = world.settings
    environment = ExecutionEnvironment(settings.data_folder, settings.cache, FolderStore(settings.home / "checkpoints"))
    accepted = world.ledger.studies.store_study_once(parse_study(STUDY))
    assert run_study(world.ledger, accepted, InProcessExecutor(environment), RecordingWatcher()) is StudyState.COMPLETE
    compute_analysis(world.ledger, accepted, environment)
    yield accepted
    load_prepared_data.cache_clear()


def test_table_and_files_have_losses_and_metrics(study_id, invoke):
    printed = invoke("leaderboard", study_id, "--format", "json")
    document = json.loads(printed.stdout)
    assert [metric["name"] for metric in document["metrics"]] == [metric.name for metric in RETRIEVAL_METRICS]
    rows = list(csv.DictReader(invoke("leaderboard", study_id, "--format", "csv").stdout.splitlines()))
    assert len(rows) == len(document["rows"]) == 5
    for row, written in zip(document["rows"], rows, strict=True):
        assert row["validation_loss_mean"] > 0
        assert row["validation_accuracy_mean"] is None
        assert 1 <= row["test_mean_rank_first_to_second_mean"] <= 1000
        assert 0 <= row["test_recall_at_10_second_to_first_mean"] <= 1
        assert float(written["test_mean_rank_first_to_second_mean"]) == row["test_mean_rank_first_to_second_mean"]


@pytest.mark.parametrize("page", ["", "/leaderboard", "/charts", "/trials"])
def test_pages_name_the_loss_of_the_task(study_id, world, page):
    answer = world.client("root", "admin", Accept="text/html").get(f"/studies/{study_id}{page}")
    assert answer.status_code == 200
    assert "nats" not in answer.text
    assert "ccuracy %" not in answer.text
    if page == "":
        assert "mean margin ranking loss" in answer.text
    if page == "/leaderboard":
        assert all(metric.label in answer.text for metric in RETRIEVAL_METRICS)


def test_the_report_names_the_loss(study_id, invoke, tmp_path):
    assert invoke("report", study_id, "--output", tmp_path / "report.html").exit_code == 0
    assert "mean margin ranking loss" in (tmp_path / "report.html").read_text("utf-8")


def test_losses_and_metrics_are_reproduced(study_id, invoke):
    verified = invoke("verify", study_id)
    assert verified.exit_code == 0, verified.stdout


def test_a_network_of_several_inputs_is_not_exported(study_id, invoke, tmp_path):
    refused = invoke("export", study_id, "--output", tmp_path / "exported")
    assert refused.exit_code != 0
    assert not (tmp_path / "exported").exists()
