"""Metrics of calibration are compared with NumPy loops over their definitions, in double precision."""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bln_search.core.errors import DataError
from bln_search.core.metric_description import BUILT_IN_METRICS
from bln_search.tasks.calibration import (
    CALIBRATION_METRICS,
    ExpectedCalibrationError,
    brier_scores,
    negative_log_likelihoods,
)


def draw(seed, n=57, classes=4, scale=2.0):
    """Logits (n, classes) and labels (n,)."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, scale, (n, classes)), rng.integers(0, classes, n)


def probabilities_by_loop(logits):
    result = np.empty_like(logits)
    for row, values in enumerate(logits):
        exponentials = [math.exp(value - max(values)) for value in values]
        result[row] = [value / sum(exponentials) for value in exponentials]
    return result


def calibration_error_by_loop(logits, labels, bins=15):
    """Sum over the bins (b/bins, (b + 1)/bins] of the share of their examples times |accuracy - confidence|."""
    probabilities = probabilities_by_loop(logits)
    error = 0.0
    for b in range(bins):
        members = [
            (max(p), int(np.argmax(p) == y))
            for p, y in zip(probabilities, labels, strict=True)
            if b / bins < max(p) <= (b + 1) / bins
        ]
        if members:
            confidence, accuracy = (sum(values) / len(members) for values in zip(*members, strict=True))
            error += len(members) / len(labels) * abs(accuracy - confidence)
    return error


def brier_by_loop(logits, labels):
    scores = []
    for p, y in zip(probabilities_by_loop(logits), labels, strict=True):
        scores.append(sum((value - (k == y)) ** 2 for k, value in enumerate(p)))
    return np.array(scores)


def compute(name, logits, labels, cuts=()):
    metric = CALIBRATION_METRICS[name]()
    edges = [0, *sorted(cuts), len(labels)]
    for start, end in pairwise(edges):
        metric.update(torch.tensor(logits[start:end]), torch.tensor(labels[start:end]))
    return float(metric.compute())


@pytest.mark.parametrize("scale", [0.1, 2.0, 30.0])
@pytest.mark.parametrize("classes", [1, 2, 10])
def test_values_of_examples_equal_loops(classes, scale):
    logits, labels = draw(1, classes=classes, scale=scale)
    tensors = torch.tensor(logits), torch.tensor(labels)
    p = probabilities_by_loop(logits)[range(len(labels)), labels]
    np.testing.assert_allclose(negative_log_likelihoods(*tensors), -np.log(p), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(brier_scores(*tensors), brier_by_loop(logits, labels), rtol=1e-10, atol=1e-14)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 1.0, 5.0]), cuts=st.sets(st.integers(0, 57), max_size=5)
)
def test_metrics_of_mini_batches_equal_loops_over_the_split(seed, scale, cuts):
    logits, labels = draw(seed, scale=scale)
    p = probabilities_by_loop(logits)[range(len(labels)), labels]
    assert compute("ece", logits, labels, cuts) == pytest.approx(calibration_error_by_loop(logits, labels), abs=1e-12)
    assert compute("brier", logits, labels, cuts) == pytest.approx(brier_by_loop(logits, labels).mean(), abs=1e-12)
    assert compute("nll", logits, labels, cuts) == pytest.approx(-np.log(p).mean(), abs=1e-12)


def test_logarithms_of_probabilities_are_logits():
    logits, labels = draw(3)
    logarithms = np.log(probabilities_by_loop(logits))
    for name in CALIBRATION_METRICS:
        assert compute(name, logarithms, labels) == pytest.approx(compute(name, logits, labels), abs=1e-12)


def test_certain_predictions_have_the_extreme_values():
    logarithms, labels = np.array([[0.0, -math.inf], [0.0, -math.inf]]), np.array([0, 1])
    assert brier_scores(torch.tensor(logarithms), torch.tensor(labels)).tolist() == [0, 2]
    assert negative_log_likelihoods(torch.tensor(logarithms), torch.tensor(labels)).tolist() == [0, math.inf]
    assert compute("ece", logarithms, labels) == 0.5


def test_a_confidence_at_a_limit_belongs_to_the_lower_bin():
    error = ExpectedCalibrationError(bins=2)
    error.update(torch.zeros(1, 2), torch.tensor([0]))  # the confidence 1/2
    assert error.sums[0].tolist() == [1, 0]


def test_merged_parts_give_the_value_of_the_whole():
    logits, labels = draw(5)
    parts = [ExpectedCalibrationError() for _ in range(2)]
    for part, examples in zip(parts, (slice(20), slice(20, None)), strict=True):
        part.update(torch.tensor(logits[examples]), torch.tensor(labels[examples]))
    alone = parts[1].compute()
    parts[0].merge(parts[1])
    assert parts[0].compute() == pytest.approx(calibration_error_by_loop(logits, labels), abs=1e-12)
    assert parts[1].compute() == alone


@pytest.mark.parametrize("name", CALIBRATION_METRICS)
def test_without_examples_there_is_no_value(name):
    metric = CALIBRATION_METRICS[name]()
    assert math.isnan(metric.compute())
    metric.update(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    assert math.isnan(metric.compute())
    metric.update(torch.zeros(2, 3), torch.tensor([0, 1]))
    assert not math.isnan(metric.compute())
    copied = copy.deepcopy(metric)
    metric.reset()
    assert math.isnan(metric.compute())
    assert not math.isnan(copied.compute())


@pytest.mark.parametrize("name", CALIBRATION_METRICS)
def test_outputs_that_are_not_numbers_have_no_value(name):
    assert math.isnan(compute(name, np.full((2, 3), np.nan), np.array([0, 1])))


@pytest.mark.parametrize("name", CALIBRATION_METRICS)
def test_sums_of_half_precision_outputs_are_in_double_precision(name):
    logits, labels = draw(7)
    halves = torch.tensor(logits).bfloat16()
    expected = compute(name, halves.double().numpy(), labels)
    metric = CALIBRATION_METRICS[name]()
    metric.update(halves, torch.tensor(labels))
    assert metric.compute() == expected


@pytest.mark.parametrize("name", CALIBRATION_METRICS)
def test_every_metric_has_a_description(name):
    assert BUILT_IN_METRICS[name].legend.endswith("lower is better")


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(2), torch.zeros(2).long(), r"logits \(examples, classes\), not of torch.float32 of shape \(2,\)"),
        (torch.zeros(2, 3, 4), torch.zeros(2).long(), r"of shape \(2, 3, 4\)"),
        (torch.zeros(2, 3).long(), torch.zeros(2).long(), r"not of torch.int64"),
        (torch.zeros(2, 0), torch.zeros(2).long(), r"of shape \(2, 0\)"),
        (torch.zeros(2, 3), torch.zeros(2), r"labels are torch.float32 of shape \(2,\)"),
        (
            torch.zeros(2, 3),
            torch.zeros(2, 1).long(),
            r"labels are torch.int64 of shape \(2, 1\): .* each of 2 examples",
        ),
        (torch.zeros(2, 3), torch.tensor([0, 3]), r"from 0 to 3, the network has 3 outputs"),
        (torch.zeros(2, 3), torch.tensor([-1, 0]), r"numbered from 0 to 2"),
        (np.zeros((2, 3)), torch.zeros(2).long(), r"the outputs are ndarray"),
        (torch.zeros(2, 3), [0, 1], r"the labels are list"),
    ],
)
@pytest.mark.parametrize("function", [brier_scores, negative_log_likelihoods, ExpectedCalibrationError().update])
def test_anything_but_logits_and_labels_is_an_error(function, logits, labels, message):
    with pytest.raises(DataError, match=message):
        function(logits, labels)
