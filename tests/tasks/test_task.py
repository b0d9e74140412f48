"""Losses and correctness of every task equal a plain loop over the examples, in double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bln_search.core.errors import DataError
from bln_search.core.tasks import NO_CLASS, RegressionLoss, TaskName
from bln_search.specs.sections.task import TaskSpec
from bln_search.tasks import make_task

N, TOKENS, OUTPUTS = 7, 5, 3


def random_outputs(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def softmax_loss(logits, target):
    return math.log(sum(math.exp(z) for z in logits)) - logits[target]


def classification_example(logits, target):
    return softmax_loss(logits, target), max(range(len(logits)), key=lambda index: logits[index]) == target


def multi_label_example(logits, target):
    losses = [
        math.log1p(math.exp(-z)) if label else math.log1p(math.exp(z)) for z, label in zip(logits, target, strict=True)
    ]
    return sum(losses) / len(losses), all((z > 0) == bool(label) for z, label in zip(logits, target, strict=True))


def squared_error_example(numbers, target):
    return sum((y - t) ** 2 for y, t in zip(numbers, target, strict=True)) / len(numbers), False


def absolute_error_example(numbers, target):
    return sum(abs(y - t) for y, t in zip(numbers, target, strict=True)) / len(numbers), False


def token_example(logits, target):
    losses = [softmax_loss(token, label) for token, label in zip(logits, target, strict=True) if label != NO_CLASS]
    return sum(losses) / max(1, len(losses)), False


def task_of(name, loss=None):
    return make_task(TaskSpec(name=name, loss=loss))


def cases():
    generator = np.random.default_rng(0)
    tokens = generator.integers(NO_CLASS, OUTPUTS, (N, TOKENS))
    tokens[0] = NO_CLASS  # a text without a word
    classes = generator.integers(0, OUTPUTS, N)
    labels = generator.integers(0, 2, (N, OUTPUTS)).astype(np.uint8)
    numbers = generator.normal(size=(N, OUTPUTS))
    plain, per_token = random_outputs(N, OUTPUTS), random_outputs(N, TOKENS, OUTPUTS)
    labels[1] = plain[1].numpy() > 0  # an example all of whose labels are right
    return {
        "classification": (task_of(TaskName.CLASSIFICATION), plain, classes, classification_example),
        "multi_label": (task_of(TaskName.MULTI_LABEL), plain, labels, multi_label_example),
        "squared_error": (task_of(TaskName.REGRESSION), plain, numbers, squared_error_example),
        "absolute_error": (
            task_of(TaskName.REGRESSION, RegressionLoss.ABSOLUTE_ERROR),
            plain,
            numbers,
            absolute_error_example,
        ),
        "token_classification": (
            task_of(TaskName.TOKEN_CLASSIFICATION),
            per_token,
            tokens,
            token_example,
        ),
        "language_model": (task_of(TaskName.LANGUAGE_MODEL), per_token, tokens, token_example),
        "density": (
            task_of(TaskName.DENSITY),
            random_outputs(N, 1),
            np.zeros((N, 0), np.int64),
            lambda output, _target: (output[0], False),
        ),
    }


@pytest.fixture(params=sorted(cases()))
def case(request):
    task, outputs, targets, example = cases()[request.param]
    expected = [example(output, target) for output, target in zip(outputs.tolist(), targets.tolist(), strict=True)]
    return task, outputs, torch.from_numpy(targets), expected


def test_scores_equal_a_loop_over_the_examples(case):
    task, outputs, targets, expected = case
    losses, correct = task.score(outputs, targets)
    assert losses.tolist() == pytest.approx([loss for loss, _ in expected], rel=1e-12, abs=1e-12)
    assert correct.tolist() == [is_correct for _, is_correct in expected]


def test_sums_and_means_are_those_of_the_scores(case):
    task, outputs, targets, expected = case
    total = math.fsum(loss for loss, _ in expected)
    num_correct = sum(is_correct for _, is_correct in expected)
    assert task.mean_loss(outputs, targets).item() == pytest.approx(total / N, rel=1e-12)
    assert task.sum_of_losses(outputs, targets).item() == pytest.approx(total, rel=1e-12)
    counted = task.count_correct(outputs, targets)
    if task.description.has_accuracy:
        assert num_correct > 0
        assert counted.item() == num_correct
    else:
        assert counted is None


def test_gradients_are_those_of_the_mean_loss(case):
    task, outputs, targets, _ = case
    assert torch.autograd.gradcheck(lambda values: task.mean_loss(values, targets), outputs.requires_grad_())


def test_tokens_without_a_class_do_not_matter():
    task, outputs, targets, _ = cases()["token_classification"]
    targets = torch.from_numpy(targets)
    changed = torch.where((targets == NO_CLASS)[..., None], outputs + 100, outputs)
    assert torch.equal(task.score(outputs, targets)[0], task.score(changed, targets)[0])


@pytest.mark.parametrize(
    ("name", "outputs", "targets"),
    [
        (TaskName.REGRESSION, random_outputs(N, 2), torch.zeros(N, 3)),
        (TaskName.MULTI_LABEL, random_outputs(N, 2), torch.zeros(N, 3)),
        (TaskName.TOKEN_CLASSIFICATION, random_outputs(N, 2), torch.zeros(N, dtype=torch.int64)),
        (TaskName.TOKEN_CLASSIFICATION, random_outputs(N, 4, 2), torch.zeros(N, 5, dtype=torch.int64)),
        (TaskName.LANGUAGE_MODEL, random_outputs(N, 4, 2), torch.zeros(N, 5, dtype=torch.int64)),
        (TaskName.DENSITY, random_outputs(N), torch.zeros(N, 0, dtype=torch.int64)),
        (TaskName.DENSITY, random_outputs(N, 2), torch.zeros(N, 0, dtype=torch.int64)),
        (TaskName.CLASSIFICATION, random_outputs(N), torch.zeros(N, dtype=torch.int64)),
    ],
)
def test_outputs_of_another_shape_are_an_error(name, outputs, targets):
    with pytest.raises(DataError, match="shape"):
        task_of(name).score(outputs, targets)
