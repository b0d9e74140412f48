"""Loss and correctness of each example."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError

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
