"""A study of each task from its file to table, REST, pages, report, files and an exported network."""

from __future__ import annotations

import csv
import json

import pytest

from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import StudyState
from bln_search.core.tasks import TaskName
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.specs import parse_study
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.in_process_executor import InProcessExecutor
from tests.support.task_studies import STUDIES, prepare_data_of_study
from tests.support.watchers import RecordingWatcher

pytestmark = pytest.mark.slow

EXPORTED = {TaskName.CLASSIFICATION, TaskName.REGRESSION, TaskName.MULTI_LABEL, TaskName.DENSITY}
"""Tasks of the studies whose networks take one tensor of measurements."""


@pytest.fixture(params=STUDIES, ids=str)
def study(request, world, monkeypatch):
    """The task of a finished study in the database of the command and of the service, its specification, and its id."""
    settings = world.settings
    environment = ExecutionEnvironment(settings.data_folder, settings.cache, FolderStore(settings.home / "checkpoints"))
    text = f"name: tasks\nseeds: [0, 1]\ntraining: {{epochs: 1, batch_size: 8}}\n{STUDIES[request.param]}"
    spec = parse_study(text)
    prepare_data_of_study(spec, settings.data_folder, monkeypatch)
    accepted = world.ledger.studies.store_study_once(spec)
    assert run_study(world.ledger, accepted, InProcessExecutor(environment), RecordingWatcher()) is StudyState.COMPLETE
    compute_and_store_analysis(world.ledger, accepted, environment)
    yield request.param, spec, accepted
    load_and_prepare_data.cache_clear()


def test_from_the_study_file_to_table_page_and_export(study, world, invoke, tmp_path):
    task, spec, study_id = study
    description = spec.resolved_task.description
    has_dimensions = task != "density of pen tracks"  # inputs of several lengths
    metrics = [metric for metric in spec.metric_descriptions if has_dimensions or metric.name != "bits_per_dimension"]
    document = json.loads(invoke("leaderboard", study_id, "--format", "json").stdout)
    assert document["loss"] == {"name": description.loss.name, "unit": description.loss.unit}
    assert [metric["name"] for metric in document["metrics"]] == [metric.name for metric in metrics]
    written = list(csv.DictReader(invoke("leaderboard", study_id, "--format", "csv").stdout.splitlines()))
    for row, line in zip(document["rows"], written, strict=True):
        assert (row["validation_accuracy_mean"] is not None) == description.has_accuracy
        for metric in metrics:
            assert row[f"test_{metric.name}_mean"] == float(line[f"test_{metric.name}_mean"])

    client = world.client("root", "admin", Accept="text/html")
    pages = {page: client.get(f"/studies/{study_id}{page}").text for page in ("", "/leaderboard", "/charts", "/trials")}
    assert all(description.loss.text in pages[page] for page in ("", "/leaderboard"))
    assert all(metric.label in pages["/leaderboard"] for metric in metrics)
    for text in pages.values():
        assert description.loss.unit == "nats" or "nats" not in text
        assert description.has_accuracy or "ccuracy %" not in text

    assert invoke("report", study_id, "--output", tmp_path / "report.html").exit_code == 0
    report = (tmp_path / "report.html").read_text("utf-8")
    assert task == TaskName.CLASSIFICATION or description.loss.text in report  # the usual loss goes without saying
    assert all(metric.label in report for metric in metrics)
    assert ("<dt>Metrics" in report) == bool(spec.evaluation.metrics)
    verified = invoke("verify", study_id)
    assert verified.exit_code == 0, verified.stdout

    exported = invoke("export", study_id, "--output", tmp_path / "exported")
    assert (exported.exit_code == 0) == (tmp_path / "exported").exists() == (task in EXPORTED), exported.output
