"""Metrics of the tasks compared with scikit-learn and with loops over the formulas, in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, mean_absolute_error, r2_score

from bln_search.core.metric_description import MetricDescription
from bln_search.core.tasks import NO_CLASS, TaskName, describe_task
from bln_search.specs.sections.task import TaskSpec
from bln_search.tasks.task_metrics import DimensionsAndTargetDeviation, make_metrics

N = 23
DEVIATION = np.array([[2.0, 0.5, 3.0]])
SCALE = DimensionsAndTargetDeviation(dimensions=12, target_deviation=DEVIATION)


def numbers(rng):
    targets = rng.normal(3, 2, (N, 3))
    return targets + rng.normal(0, 1, (N, 3)), targets


def labels(rng):
    return rng.normal(0, 1, (N, 5)), (rng.random((N, 5)) < [0.5, 0.3, 0.7, 0.1, 0]).astype(np.uint8)


def tokens(rng):
    targets = rng.integers(NO_CLASS, 3, (N, 6))
    targets[0] = NO_CLASS
    return rng.normal(0, 2, (N, 6, 4)), targets


def likelihoods(rng):
    return rng.normal(90, 10, (N, 1)), np.zeros((N, 0), np.int64)


def regression_oracle(outputs, targets):
    return {
        "r2": r2_score(targets, outputs, multioutput="variance_weighted"),
        "mean_absolute_error": mean_absolute_error(targets * DEVIATION, outputs * DEVIATION),
    }


def multi_label_oracle(outputs, targets):
    predictions = outputs > 0
    return {f"{kind}_f1": f1_score(targets, predictions, average=kind, zero_division=0) for kind in ("macro", "micro")}


def token_oracle(outputs, targets):
    classes, predictions = targets[targets != NO_CLASS], outputs.argmax(-1)[targets != NO_CLASS]
    return {
        "token_accuracy": np.mean(classes == predictions),
        "macro_f1": f1_score(classes, predictions, average="macro", zero_division=0),
    }


def language_oracle(outputs, targets):
    total, count, right = 0.0, 0, 0
    for logits, target in zip(outputs.reshape(-1, 4), targets.flatten(), strict=True):
        if target == NO_CLASS:
            continue
        total += math.log(sum(math.exp(logit) for logit in logits)) - logits[target]
        count, right = count + 1, right + (logits.argmax() == target)
    return {"perplexity": math.exp(total / count), "token_accuracy": right / count}


def density_oracle(outputs, _targets):
    return {"bits_per_dimension": float(np.mean([value / 12 / math.log(2) for value in outputs[:, 0]]))}


CASES = {
    TaskName.CLASSIFICATION: (lambda rng: (rng.normal(0, 1, (N, 3)), rng.integers(0, 3, N)), lambda *_: {}),
    TaskName.REGRESSION: (numbers, regression_oracle),
    TaskName.MULTI_LABEL: (labels, multi_label_oracle),
    TaskName.TOKEN_CLASSIFICATION: (tokens, token_oracle),
    TaskName.LANGUAGE_MODEL: (tokens, language_oracle),
    TaskName.DENSITY: (likelihoods, density_oracle),
}


def compute(task, outputs, targets, cuts=()):
    """The metrics over mini-batches that end at `cuts`."""
    metrics = make_metrics(TaskSpec(name=task), SCALE)
    for part in np.split(np.arange(len(outputs)), sorted(cuts)):
        if len(part):
            for metric in metrics.values():
                metric.update(torch.from_numpy(outputs[part]), torch.from_numpy(targets[part]))
    return {name: float(metric.compute()) for name, metric in metrics.items()}


@pytest.mark.parametrize("task", CASES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_metrics_equal_an_independent_formula(task, seed):
    make, oracle = CASES[task]
    outputs, targets = make(np.random.default_rng(seed))
    assert compute(task, outputs, targets) == pytest.approx(oracle(outputs, targets), rel=1e-12)


@pytest.mark.parametrize("task", CASES, ids=str)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, N), max_size=6))
@settings(max_examples=30, deadline=None)
def test_mini_batches_give_the_value_of_one_batch(task, seed, cuts):
    outputs, targets = CASES[task][0](np.random.default_rng(seed))
    assert compute(task, outputs, targets, cuts) == pytest.approx(compute(task, outputs, targets), rel=1e-10)


@pytest.mark.parametrize("task", CASES, ids=str)
def test_every_metric_has_a_description(task):
    descriptions = describe_task(task).metrics
    assert [metric.name for metric in descriptions] == list(make_metrics(TaskSpec(name=task), SCALE))
    for metric in descriptions:
        assert metric.label in metric.legend
        assert ("higher" if metric.higher_is_better else "lower") in metric.legend


@pytest.mark.parametrize("task", CASES, ids=str)
def test_a_reset_forgets_all_examples(task):
    make, oracle = CASES[task]
    outputs, targets = make(np.random.default_rng(7))
    for name, metric in make_metrics(TaskSpec(name=task), SCALE).items():
        metric.update(torch.from_numpy(outputs[:9] + 1), torch.from_numpy(targets[:9]))
        metric.reset()
        metric.update(torch.from_numpy(outputs), torch.from_numpy(targets))
        assert float(metric.compute()) == pytest.approx(oracle(outputs, targets)[name], rel=1e-12)


def test_sums_are_in_double_precision():
    targets = np.full((4096, 1), 1.0, np.float32)
    outputs = targets + np.float32(2**-12)
    metrics = make_metrics(TaskSpec(name=TaskName.REGRESSION), DimensionsAndTargetDeviation(1, np.array([[1.0]])))
    metric = metrics["mean_absolute_error"]
    metric.update(torch.full((1, 1), 2.0**26), torch.zeros(1, 1))
    metric.update(torch.from_numpy(outputs), torch.from_numpy(targets))
    assert float(metric.compute()) * 4097 == 2**26 + 1


@pytest.mark.parametrize("values", [[[2.0]], [[2.0], [2.0]]])
def test_r2_of_equal_targets_has_no_value(values):
    metric = make_metrics(TaskSpec(name=TaskName.REGRESSION), DimensionsAndTargetDeviation(1))["r2"]
    metric.update(torch.ones(len(values), 1), torch.tensor(values))
    assert math.isnan(float(metric.compute()))


@pytest.mark.parametrize("task", [TaskName.TOKEN_CLASSIFICATION, TaskName.LANGUAGE_MODEL], ids=str)
def test_texts_without_a_class_have_no_value(task):
    for metric in make_metrics(TaskSpec(name=task), SCALE).values():
        metric.update(torch.zeros(2, 3, 4), torch.full((2, 3), NO_CLASS))
        assert math.isnan(float(metric.compute()))


@pytest.mark.parametrize("name", ["", "R2", "loss", "accuracy", "gap", "a-b", "1st", "a" * 33])
def test_names_that_cannot_be_columns_are_refused(name):
    with pytest.raises(ValueError, match="cannot be the name of a metric"):
        MetricDescription(name, "label", "meaning", higher_is_better=True)
