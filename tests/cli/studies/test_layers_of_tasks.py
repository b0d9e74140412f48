"""A per-layer search and probes of a regression: table, exports, REST, pages and report have its loss, no accuracy."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import ProbeKind, Split
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.core.states import StudyState
from bln_search.evaluation.batches import iter_mini_batches_with_fillers
from bln_search.evaluation.tree.graph.segments import split_at_norms
from bln_search.evaluation.tree.verification import use_per_layer_configuration
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.execution.loaded_network import use_trained_network
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs import parse_study
from bln_search.worker import run_study
from bln_search.worker.analysis import compute_and_store_analysis
from tests.support.in_process_executor import InProcessExecutor
from tests.support.watchers import RecordingWatcher

UNIT = "variances of the training targets"
SIZE = 16
STUDY = f"""
name: layered_numbers
data: {{name: diabetes, validation: 80}}
model: {{name: mlp, widths: [8, 6]}}
arms: [{{method: bn}}]
training: {{epochs: 1, batch_size: {SIZE}}}
seeds: [0, 1]
layers: {{}}
probes: {{batch_sizes: [4], reshuffles: 2}}
"""


@pytest.fixture
def environment(world):
    settings = world.settings
    return ExecutionEnvironment(settings.data_folder, settings.cache, FolderStore(settings.home / "checkpoints"))


@pytest.fixture
def study_id(world, environment):
    """A finished study in the database of the command and of the service."""
    accepted = world.ledger.studies.store_study_once(parse_study(STUDY))
    assert run_study(world.ledger, accepted, InProcessExecutor(environment), RecordingWatcher()) is StudyState.COMPLETE
    assert compute_and_store_analysis(world.ledger, accepted, environment).layers_reason is None
    return accepted


@torch.no_grad()
def plain_mean_loss(loaded, configuration):
    """Mean squared error of a per-layer configuration over the validation split by plain forward passes."""
    total, examples = 0.0, 0
    network = split_at_norms(loaded.network.eval())
    populations = loaded.populations_by_estimate_and_layer
    with evaluation_mode(loaded.network), use_per_layer_configuration(network, configuration, populations, "frozen"):
        for inputs, targets in iter_mini_batches_with_fillers(*loaded.data.splits[Split.VALIDATION], SIZE):
            errors = loaded.network(inputs)[: len(targets)].double().numpy() - targets.double().numpy()
            total, examples = total + float((errors**2).sum()), examples + len(targets)
    return total / examples


def test_losses_of_every_configuration_equal_plain_passes(study_id, world, environment, invoke):
    (result,) = json.loads(invoke("layers", study_id, "--format", "json").stdout)
    assert len(result["rows"]) == int(result["size"]) == 16
    losses = []
    for trial in world.ledger.trials.list_finished_full_trials(study_id):
        with use_trained_network(trial.spec, trial.get_checkpoint_record(), environment) as loaded:
            configurations = [PerLayerConfiguration.parse(row["configuration"]) for row in result["rows"]]
            losses.append([plain_mean_loss(loaded, configuration) for configuration in configurations])
    assert [row["loss"] for row in result["rows"]] == pytest.approx(np.mean(losses, axis=0).tolist(), rel=1e-5)


def test_the_commands_have_losses_with_their_unit_and_no_accuracy(study_id, invoke):
    text = invoke("layers", study_id).stdout
    assert f"mean squared error in {UNIT}" in " ".join(text.split())
    assert "nats" not in text
    assert "accuracy" not in text
    (result,) = json.loads(invoke("layers", study_id, "--format", "json").stdout)
    assert result["loss"] == {"name": "squared error", "unit": UNIT}
    assert {row["accuracy"] for row in [*result["rows"], *result["uniform"]]} == {None}
    assert all(network["is_tested"] and network["test_accuracy"] is None for network in result["networks"])
    rows = list(csv.DictReader(io.StringIO(invoke("layers", study_id, "--format", "csv").stdout)))
    assert len(rows) == 16 + 4
    assert "validation_accuracy" not in rows[0]
    probes = list(
        csv.DictReader(io.StringIO(invoke("probe", study_id, "--batch-sizes", "2", "--format", "csv").stdout))
    )
    assert {row["batch_size"] for row in probes} == {"2"}
    assert "accuracy" not in probes[0]


def test_rest_has_losses_with_their_unit_and_no_accuracy(study_id, world):
    client = world.client("root", "admin")
    (layers,) = client.get(f"/api/v1/studies/{study_id}/layers").json()["layers"]
    assert layers["result"]["loss"] == {"name": "squared error", "unit": UNIT}
    assert {row["accuracy"] for row in layers["result"]["rows"]} == {None}
    assert any(UNIT in sentence for sentence in layers["sentences"])
    assert not any("nats" in sentence for sentence in layers["sentences"])
    probes = client.get(f"/api/v1/studies/{study_id}/probes?limit=100").json()["items"]
    assert {probe["kind"] for probe in probes} == {ProbeKind.SIZE, ProbeKind.RESHUFFLED}
    assert {(probe["accuracy"], probe["flips"]) for probe in probes} == {(None, None)}
    deviations = {probe["configuration"]: probe["deviation"] for probe in probes if probe["kind"] == "reshuffled"}
    assert deviations["TT--"] < 1e-6 < deviations["FF--"]


def test_pages_have_no_accuracy_and_no_nats(study_id, world):
    client = world.client("root", "admin", Accept="text/html")
    for page in ("layers", "layers/switches.json", "charts", "charts/company.json"):
        answer = client.get(f"/studies/{study_id}/{page}")
        assert answer.status_code == 200, page
        assert "nats" not in answer.text, page
        assert "ccuracy %" not in answer.text, page


def test_the_report_has_the_search_and_the_dependence_on_the_mini_batch(study_id, invoke, tmp_path):
    assert invoke("report", study_id, "--output", tmp_path / "report.html").exit_code == 0
    text = (tmp_path / "report.html").read_text("utf-8").replace(r"\u003cbr\u003e", " ")  # lines of axis titles
    assert f"In {UNIT}: loss under T minus loss under F" in text
    assert f"deviation of the loss ({UNIT})" in text
    assert "nats" not in text
    assert "ccuracy %" not in text
