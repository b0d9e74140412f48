"""Loss and correctness of each example."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError, ModelError

Score = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A function from outputs (n, ...) and targets (n, ...) to losses (n,) and correctness (n,), example by example."""


def cross_entropy(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return softmax cross-entropy in nats and correctness, from logits (n, classes) and classes (n,).

    Raises:
        DataError: the outputs are not logits of that shape, or a target is out of range.
    """
    try:
        return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1) == targets
    except (IndexError, RuntimeError, ValueError):
        problem = _logits_problem(outputs, targets)
        if problem is None:
            raise
        raise DataError(problem) from None


def score_examples(score: Score, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return losses and correctness (n,) of outputs (n, ...) by a score that a user may have written.

    Raises:
        ModelError: the score returns other types or shapes.
    """
    scores = score(outputs, targets)
    if not isinstance(scores, tuple | list) or len(scores) != 2 or not all(isinstance(x, Tensor) for x in scores):
        raise ModelError(
            "score must return a tensor of losses, or two tensors, losses and correctness, with one value for each "
            f"example, not {describe_type(scores)}"
        )
    losses, correct = scores
    n = len(outputs)
    if losses.shape != (n,) or correct.shape != (n,):
        raise ModelError(
            f"score must return one loss and one correctness for each of the {n} outputs, which are of several "
            f"configurations; it returned shapes {tuple(losses.shape)} and {tuple(correct.shape)}"
        )
    if not correct.is_floating_point():
        return losses, correct
    if not ((correct == 0) | (correct == 1)).all():
        raise ModelError(
            "score must return correctness as bools, or as 0 and 1, because the tests of accuracies count examples; a "
            'fraction of an example is a metric, as in metrics={"token accuracy": function}'
        )
    return losses, correct.bool()


def describe_type(value: object) -> str:
    """Return the name of a value's type; for a short tuple or list those of its items."""
    if isinstance(value, tuple | list) and len(value) < 5:
        return f"({', '.join(type(item).__name__ for item in value)})"
    return type(value).__name__


def check_class_targets(targets: Tensor, loader: str, classes: int | None = None) -> None:
    """Raise DataError unless `targets` can be classes: int64, one for each example, from 0 to `classes` - 1.

    Args:
        targets: of a mini-batch.
        loader: the argument of their loader, for the message.
        classes: the number of classes; None where it is unknown.
    """
    if targets.dtype != torch.int64 or targets.ndim != 1:
        raise DataError(
            f"{loader} yields targets of type {targets.dtype} and shape {tuple(targets.shape)}: classes are int64, one "
            'for each example; for other targets choose another score, as in score="mse"'
        )
    if targets.numel() and int(targets.min()) < 0:
        raise DataError(f"{loader} yields the class {int(targets.min())}: classes are numbered from 0")
    if classes is not None and targets.numel() and int(targets.max()) >= classes:
        raise DataError(
            f"{loader} yields the class {int(targets.max())}, the network has {classes} outputs: classes are numbered "
            f"from 0 to {classes - 1}"
        )


def _logits_problem(outputs: Tensor, targets: Tensor) -> str | None:
    """Return why outputs and targets do not fit; None where they do."""
    if outputs.ndim != 2 or not outputs.is_floating_point():
        return (
            f"the network gives outputs of type {outputs.dtype} and shape {tuple(outputs.shape)}: cross-entropy takes "
            'logits of shape (examples, classes); for other outputs choose another score, as in score="mse"'
        )
    if targets.numel() and int(targets.max()) >= outputs.shape[1]:
        return (
            f"a target is class {int(targets.max())}, the network has {outputs.shape[1]} outputs: classes are numbered "
            f"from 0 to {outputs.shape[1] - 1}"
        )
    return None


def loss_and_prediction(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return softmax cross-entropy and, in place of correctness, the predicted class."""
    return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1)
