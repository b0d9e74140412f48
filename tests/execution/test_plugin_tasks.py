"""A task of an installed package: training, evaluation, metrics, and what happens when a part of it fails."""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.errors import DataError, ModelError, SpecError
from bln_search.core.loss_description import LossDescription
from bln_search.core.method import Method
from bln_search.core.metric_description import MetricDescription
from bln_search.core.task_plugin import TASKS as TASK_PLUGINS
from bln_search.core.task_plugin import TaskPlugin
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EpochDone, EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.ranking.leaderboard import build_leaderboard_from_evaluations
from bln_search.ranking.row_results import TrialEvaluation
from bln_search.reports.export import loss_and_task_metric_fields
from bln_search.search.layers.trial_search import search_layers_of_trial
from bln_search.search.preflight import run_preflight_checks
from bln_search.specs import list_planned_trial_specs, parse_study
from bln_search.tasks import make_task

STUDY = """
name: focal
data: {name: digits}
model: {name: mlp, widths: [8]}
arms: [{method: bln}]
training: {epochs: 2, batch_size: 25}
seeds: [3]
task: {name: TASK}
"""


def focal_loss(outputs, targets):
    log_p = F.log_softmax(outputs, 1).gather(1, targets[:, None])[:, 0]
    return -((1 - log_p.exp()) ** 2) * log_p, outputs.argmax(1) == targets


class TopTwo:
    """Fraction of examples whose class is one of the two most probable ones."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.right = self.n = 0

    def update(self, outputs, targets):
        self.right += int((outputs.topk(2, 1).indices == targets[:, None]).any(1).sum())
        self.n += len(targets)

    def compute(self):
        return self.right / self.n


class Failing(TopTwo):
    """A metric whose values cannot be added."""

    def update(self, outputs, targets):
        raise ZeroDivisionError("no value")


def without_a_score(outputs, _targets):
    raise ZeroDivisionError("no score")


def mean_of_losses(outputs, targets):
    losses, correct = focal_loss(outputs, targets)
    return losses.mean(), correct


def refuse_labels(targets, outputs):
    return f"{len(targets.unique())} classes, {outputs} outputs"


LOSS = LossDescription("focal loss", "nats")
TOP_TWO = MetricDescription("top_two", "top 2", "fraction in the first two", higher_is_better=True)
BROKEN = MetricDescription("broken", "broken", "no value", higher_is_better=True)
IMPOSSIBLE = MetricDescription("impossible", "impossible", "cannot be made", higher_is_better=True)
FOCAL = TaskPlugin(LOSS, f"{__name__}:focal_loss", "whose class is right", {TOP_TWO: TopTwo})
PARTLY_BROKEN = TaskPlugin(LOSS, focal_loss, metrics={BROKEN: Failing, TOP_TWO: TopTwo, IMPOSSIBLE: "absent:Metric"})
RAISING = TaskPlugin(LOSS, without_a_score)
WRONG_SHAPE = TaskPlugin(LOSS, mean_of_losses)
NO_SCORE = TaskPlugin(LOSS, "absent:score")
REFUSING = TaskPlugin(LOSS, focal_loss, check_labels=refuse_labels)
NO_PLUGIN = "not a task"
TASKS = {
    "focal": "FOCAL",
    "partly_broken": "PARTLY_BROKEN",
    "raising": "RAISING",
    "wrong_shape": "WRONG_SHAPE",
    "no_score": "NO_SCORE",
    "refusing": "REFUSING",
    "no_plugin": "NO_PLUGIN",
    "absent": "Absent",
}


@pytest.fixture(autouse=True)
def plugins(monkeypatch):
    points = {name: EntryPoint(name, f"{__name__}:{value}", "bln_search.tasks") for name, value in TASKS.items()}
    monkeypatch.setattr(TASK_PLUGINS, "plugins", points)


@pytest.fixture
def environment(tmp_path):
    yield ExecutionEnvironment(tmp_path, tmp_path / "cache", FolderStore(tmp_path / "checkpoints"))
    load_and_prepare_data.cache_clear()


def study_of(task):
    return parse_study(STUDY.replace("TASK", task))


def run(study, environment):
    (trial,) = list_planned_trial_specs(study)
    sent = []
    for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
        pass
    return trial, sent


def of_type(messages, kind):
    return [message for message in messages if isinstance(message, kind)]


def test_a_study_is_trained_evaluated_and_described(environment):
    study = study_of("focal")
    run_preflight_checks(study, environment)
    trial, sent = run(study, environment)
    (done,), (checkpoint,) = of_type(sent, EvaluationDone), of_type(sent, TrainingDone)
    first, last = (message.record for message in of_type(sent, EpochDone))
    assert last.training_loss < first.training_loss
    assert 0 < last.validation_accuracy <= 1
    board = build_leaderboard_from_evaluations(TrialEvaluation("bln", 3, evaluation) for evaluation in done.evaluations)
    assert board.has_accuracy
    assert loss_and_task_metric_fields(study, board)["loss"] == {"name": "focal loss", "unit": "nats"}
    assert [metric["label"] for metric in loss_and_task_metric_fields(study, board)["metrics"]] == ["top 2"]
    with use_trained_network(trial, checkpoint.checkpoint, environment) as loaded, torch.no_grad():
        network = loaded.network.eval()
        inputs, targets = loaded.data.splits[Split.VALIDATION]
        row = next(
            row
            for row in done.evaluations
            if str(row.key.configuration) == "TTTT" and row.key.split is Split.VALIDATION
        )
        outputs = network(inputs)
    assert row.n == len(targets)
    assert row.metrics["top_two"] >= row.accuracy
    assert outputs.shape == (row.n, 10)


def test_the_layers_of_a_network_are_searched_with_the_loss_of_the_package(environment):
    study = parse_study(STUDY.replace("TASK", "focal").replace("epochs: 2", "epochs: 1") + "layers: {}\n")
    run_preflight_checks(study, environment)
    trial, sent = run(study, environment)
    (done,), (checkpoint,) = of_type(sent, EvaluationDone), of_type(sent, TrainingDone)
    record = search_layers_of_trial(trial, checkpoint.checkpoint, environment, study.layers)
    evaluations = [evaluation for evaluation in done.evaluations if evaluation.key.split is Split.VALIDATION]
    uniform = record.space.choice_digits_by_uniform_configuration()
    indices = [
        record.space.index_of_choice_digits(
            uniform[evaluation.key.configuration.restricted_to_statistics_of(Method.BLN)]
        )
        for evaluation in evaluations
    ]
    losses, accuracies = record.sums.mean_loss_per_configuration, record.sums.accuracy_per_configuration
    np.testing.assert_allclose(losses[indices], [evaluation.loss for evaluation in evaluations], rtol=1e-5)
    np.testing.assert_allclose(accuracies[indices], [evaluation.accuracy for evaluation in evaluations])


def test_scores_are_those_of_the_package():
    task = make_task(study_of("focal").resolved_task)
    outputs, targets = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 1, 0])
    p = np.exp(outputs.numpy())
    p = p[np.arange(6), targets] / p.sum(1)
    losses, correct = task.score(outputs, targets)
    np.testing.assert_allclose(losses, -((1 - p) ** 2) * np.log(p), rtol=1e-12)
    assert correct.tolist() == (outputs.numpy().argmax(1) == targets.numpy()).tolist()
    assert task.mean_loss(outputs, targets) == losses.mean()


def test_a_metric_that_fails_is_missing_with_a_warning(environment, caplog):
    with caplog.at_level(logging.WARNING):
        _, sent = run(study_of("partly_broken"), environment)
    (done,) = of_type(sent, EvaluationDone)
    measured = [evaluation for evaluation in done.evaluations if evaluation.loss is not None]
    assert len(measured) > 3
    assert {tuple(evaluation.metrics) for evaluation in measured} == {("top_two",)}
    assert {evaluation.accuracy for evaluation in measured} == {None}
    text = " ".join(record.getMessage() for record in caplog.records)
    assert "'broken' failed" in text
    assert "metric impossible of the task partly_broken" in text


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        ("raising", ModelError, r"the score of the task raising .*ZeroDivisionError: no score"),
        (
            "wrong_shape",
            ModelError,
            r"the score of the task wrong_shape .* must return .*, not \(a tensor of shape \(\)",
        ),
        ("no_score", ModelError, "the score of the task no_score of an installed package cannot be loaded"),
    ],
)
def test_a_score_that_fails_gives_one_error_that_names_the_task(environment, task, error, message):
    with pytest.raises(error, match=message):
        run(study_of(task), environment)


@pytest.mark.parametrize(
    ("task", "error", "message"),
    [
        ("no_score", ModelError, "the score of the task no_score"),
        ("refusing", DataError, "train labels do not fit the task refusing: 10 classes, 10 outputs"),
    ],
)
def test_parts_and_labels_are_checked_before_training(environment, task, error, message):
    with pytest.raises(error, match=message):
        run_preflight_checks(study_of(task), environment)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("unknown", "there is no task 'unknown'; choose one of .*classification, .*focal"),
        ("no_plugin", "the task no_plugin of an installed package is not a"),
        ("absent", "the task absent of an installed package cannot be loaded"),
    ],
)
def test_a_study_of_an_unknown_task_is_refused(task, message):
    with pytest.raises(SpecError, match=message):
        study_of(task)


def test_a_stored_study_is_readable_without_its_package(monkeypatch):
    study = study_of("focal")
    monkeypatch.setattr(TASK_PLUGINS, "plugins", {})
    again = type(study).model_validate_json(study.canonical_json())
    assert again.digest == study.digest
    assert "focal" in again.loss_description.text
    assert again.metric_descriptions == ()
    with pytest.raises(ModelError, match="the task focal is of a package that is not installed here"):
        make_task(again.resolved_task)
