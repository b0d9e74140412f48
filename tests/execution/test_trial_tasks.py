"""Trials of every task: evaluations equal plain passes over the examples, and what they record."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bln_search.core.checkpoints import FolderStore
from bln_search.core.enums import Split
from bln_search.core.tasks import TaskName
from bln_search.evaluation.row_evaluator import use_row_in_all_layers
from bln_search.execution.environment import ExecutionEnvironment, load_and_prepare_data
from bln_search.execution.loaded_network import use_trained_network
from bln_search.execution.messages import EpochDone, EvaluationDone, TrainingDone, TrialTask
from bln_search.execution.reevaluation import (
    ReproductionVerdict,
    choose_reevaluation_environment,
    compare_evaluations,
    reevaluate_trial,
)
from bln_search.execution.trial import iter_epochs_of_trial_task
from bln_search.norms.network.layers import evaluation_mode
from bln_search.specs import list_planned_trial_specs, parse_study
from tests.support.task_studies import STUDIES, prepare_data_of_study

SLOW = ("language model with normalized cells", TaskName.DENSITY, "density of pen tracks")


def marks_of_study(name):
    """A process of its own; the slow tier for long sequences."""
    return [pytest.mark.xdist_group(f"trial of {name}"), *([pytest.mark.slow] if name in SLOW else [])]


@pytest.fixture(scope="module", params=[pytest.param(name, id=name, marks=marks_of_study(name)) for name in STUDIES])
def trained(request, tmp_path_factory):
    """A trial of a task with its environment and messages; the tests of a task share it, in one process."""
    folder = tmp_path_factory.mktemp("trial")
    study = parse_study(f"name: tasks\nseeds: [3]\ntraining: {{epochs: 2, batch_size: 8}}\n{STUDIES[request.param]}")
    with pytest.MonkeyPatch.context() as patch:
        prepare_data_of_study(study, folder, patch)
        (trial,) = list_planned_trial_specs(study)
        environment = ExecutionEnvironment(folder, folder / "cache", FolderStore(folder / "checkpoints"))
        sent = []
        for _ in iter_epochs_of_trial_task(TrialTask(1, trial), environment, sent.append):
            pass
        yield trial, environment, sent
    load_and_prepare_data.cache_clear()


def of_type(messages, kind):
    return [message for message in messages if isinstance(message, kind)]


@torch.no_grad()
def plain_losses_and_metrics(loaded, row, inputs, targets, size):
    """Losses and metrics by plain forward passes over mini-batches, the last one filled from the first."""
    n, kept_outputs, metrics = len(inputs), [], loaded.make_task_metrics()
    with evaluation_mode(loaded.network), use_row_in_all_layers(row, loaded.populations_by_estimate_and_layer):
        for start in range(0, n, size):
            chosen = [(start + offset) % n for offset in range(size)]
            outputs = loaded.network(inputs[torch.tensor(chosen)])
            kept = min(size, n - start)
            kept_outputs.append(outputs[:kept])
            for metric in metrics.values():
                metric.update(outputs[:kept], targets[start : start + kept])
    outputs, score = torch.cat(kept_outputs), loaded.task.score
    compare = score.score_examples_together if loaded.task.compares_examples else score
    values = {name: metric.compute() for name, metric in metrics.items()}
    numbers = {}
    for name, value in values.items():
        numbers |= value if isinstance(value, dict) else {name: float(value)}
    return compare(outputs, targets)[0].tolist(), numbers


def test_losses_and_metrics_of_rows_equal_plain_passes(trained):
    trial, environment, sent = trained
    (done,), (checkpoint,) = of_type(sent, EvaluationDone), of_type(sent, TrainingDone)
    evaluations = {evaluation.key: evaluation for evaluation in done.evaluations}
    assert len(evaluations) == len(done.evaluations) > 3
    with use_trained_network(trial, checkpoint.checkpoint, environment) as loaded:
        size = trial.training.batch_size
        for row in loaded.planned_inference_rows[::3]:
            inputs, targets = loaded.data.splits[Split.VALIDATION]
            expected, metrics = plain_losses_and_metrics(loaded, row, inputs, targets, size)
            found = next(
                evaluation
                for key, evaluation in evaluations.items()
                if (key.configuration, key.estimate, key.split) == (row.configuration, row.estimate, Split.VALIDATION)
            )
            np.testing.assert_allclose(found.outcomes.losses, expected, rtol=2e-4, atol=2e-5)
            described = [metric.name for metric in trial.resolved_task.description.metrics]
            described += trial.evaluation.metrics
            has_one_input = isinstance(loaded.data.input_shape, tuple)  # otherwise there is no number of dimensions
            assert list(found.metrics) == [name for name in described if has_one_input or name != "bits_per_dimension"]
            finite = {name: value for name, value in metrics.items() if np.isfinite(value)}
            assert found.metrics == pytest.approx(finite, rel=2e-4, abs=2e-5)


def test_accuracy_is_recorded_where_the_task_has_one(trained):
    trial, _, sent = trained
    has_accuracy = trial.resolved_task.description.has_accuracy
    (done,) = of_type(sent, EvaluationDone)
    records = [message.record for message in of_type(sent, EpochDone)]
    assert len(records) == 2
    accuracies = [evaluation.accuracy for evaluation in done.evaluations]
    accuracies += [value for record in records for value in (record.training_accuracy, record.validation_accuracy)]
    assert {accuracy is not None for accuracy in accuracies} == {has_accuracy}
    assert all(np.isfinite(record.training_loss) and np.isfinite(record.validation_loss) for record in records)


def test_a_checkpoint_gives_the_same_evaluations_again(trained):
    trial, environment, sent = trained
    (done,), (checkpoint,) = of_type(sent, EvaluationDone), of_type(sent, TrainingDone)
    conditions = choose_reevaluation_environment(trial, checkpoint.checkpoint)
    again = reevaluate_trial(trial, checkpoint.checkpoint, environment, conditions)
    compared = compare_evaluations(done.evaluations, again, same_conditions=True)
    assert {comparison.verdict for comparison in compared} == {ReproductionVerdict.IDENTICAL}
