"""Loss and correctness of each example."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError, ModelError

Score = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From outputs (n, ...) and targets (n, ...): losses (n,) and correctness (n,), each example by itself."""


def cross_entropy(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax cross-entropy in nats from logits (n, classes) and classes (n,); correct where the largest logit is.

    Raises DataError where outputs are not logits of that shape, or a target is none of their classes.
    """
    try:
        return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1) == targets
    except (IndexError, RuntimeError, ValueError):
        problem = _logits_problem(outputs, targets)
        if problem is None:
            raise
        raise DataError(problem) from None


def scores_of(score: Score, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Losses and correctness (n,) of outputs (n, ...), from a score that may be anybody's.

    Raises ModelError where it does not return these.
    """
    given = score(outputs, targets)
    if not isinstance(given, tuple | list) or len(given) != 2 or not all(isinstance(one, Tensor) for one in given):
        raise ModelError(
            f"score must return two tensors, losses and correctness, one of each an example, not {kind_of(given)}; "
            "where nothing is right or wrong, correctness may be torch.zeros(len(outputs))"
        )
    losses, correct = given
    n = len(outputs)
    if losses.shape != (n,) or correct.shape != (n,):
        raise ModelError(
            f"score must return a loss and a correctness for each of the {n} answers it is given, those of several "
            f"configurations together; it returned shapes {tuple(losses.shape)} and {tuple(correct.shape)}"
        )
    if not correct.is_floating_point():
        return losses, correct
    if not ((correct == 0) | (correct == 1)).all():
        raise ModelError("correctness, as score returns it, says of each answer whether it is right: bools, or 0 and 1")
    return losses, correct.bool()


def kind_of(value: object) -> str:
    """The type of a value; of a tuple or list what it holds."""
    if isinstance(value, tuple | list) and len(value) < 5:
        return f"({', '.join(type(one).__name__ for one in value)})"
    return type(value).__name__


def check_classes(targets: Tensor, loader: str) -> None:
    """Raise DataError unless `targets` can be classes: int64, one an example, not negative."""
    if targets.dtype != torch.int64 or targets.ndim != 1:
        raise DataError(
            f"{loader} yields targets of type {targets.dtype} and shape {tuple(targets.shape)}: classes are int64, one "
            "an example; for other targets give a score= of your own"
        )
    if targets.numel() and int(targets.min()) < 0:
        raise DataError(f"{loader} yields the class {int(targets.min())}: classes are numbered from 0")


def _logits_problem(outputs: Tensor, targets: Tensor) -> str | None:
    """Why outputs and targets do not go together; None where that is not the matter."""
    if outputs.ndim != 2 or not outputs.is_floating_point():
        return (
            f"the network gives outputs of type {outputs.dtype} and shape {tuple(outputs.shape)}: cross-entropy takes "
            "logits of shape (examples, classes); for other outputs give a score= of your own"
        )
    if targets.numel() and int(targets.max()) >= outputs.shape[1]:
        return (
            f"a target is class {int(targets.max())}, the network has {outputs.shape[1]} outputs: classes are numbered "
            f"from 0 to {outputs.shape[1] - 1}"
        )
    return None


def loss_and_class(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same loss, and in place of correctness the class that is predicted."""
    return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1)
