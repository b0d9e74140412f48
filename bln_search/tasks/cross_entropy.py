"""Softmax cross-entropy of classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError


def cross_entropy_and_correctness(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return softmax cross-entropy in nats and correctness, from logits (n, classes) and classes (n,).

    Raises:
        DataError: the outputs are not logits of that shape, or a target is out of range.
    """
    try:
        return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1) == targets
    except (IndexError, RuntimeError, ValueError):
        problem = _find_logits_problem(outputs, targets)
        if problem is None:
            raise
        raise DataError(problem) from None


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
            f"for each example; {_describe_remedy(targets)}"
        )
    if targets.numel() and int(targets.min()) < 0:
        raise DataError(f"{loader} yields the class {int(targets.min())}: classes are numbered from 0")
    if classes is not None and targets.numel() and int(targets.max()) >= classes:
        raise DataError(
            f"{loader} yields the class {int(targets.max())}, the network has {classes} outputs: classes are numbered "
            f"from 0 to {classes - 1}"
        )


def _describe_remedy(targets: Tensor) -> str:
    """Return how `targets` become classes, where they can be classes, and what to do with others."""
    other = 'for other targets choose another score, as in score="mse"'
    if targets.ndim == 2 and targets.shape[1] > 1 and _is_one_hot(targets):
        return f"if these are one-hot, give targets.argmax(1); {other}"
    calls = [".squeeze(1)"] if targets.ndim == 2 and targets.shape[1] == 1 else []
    if targets.ndim > 1 + len(calls) and targets.dtype == torch.int64:
        return "for a class of each token or pixel give a function that returns a loss for each example, as score="
    if targets.ndim > 1 + len(calls) or not bool((targets == targets.long()).all()):
        return other
    if targets.dtype != torch.int64:
        calls.append(".long()")
    return f"if these are classes, give targets{''.join(calls)}; {other}"


def _is_one_hot(targets: Tensor) -> bool:
    return bool(((targets == 0) | (targets == 1)).all() and (targets.sum(1) == 1).all())


def _find_logits_problem(outputs: Tensor, targets: Tensor) -> str | None:
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
