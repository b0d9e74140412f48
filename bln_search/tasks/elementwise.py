"""Losses that compare outputs and targets value by value."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError


def squared_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return squared errors, in the shape of the outputs."""
    return F.mse_loss(outputs, reshape_targets_like_outputs(targets, outputs), reduction="none")


def absolute_errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return absolute errors, in the shape of the outputs."""
    return F.l1_loss(outputs, reshape_targets_like_outputs(targets, outputs), reduction="none")


def score_binary_logits(outputs: Tensor, targets: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """Return the cross-entropy of logits in nats; with correctness if an example has one logit."""
    aligned = reshape_targets_like_outputs(targets, outputs)
    losses = F.binary_cross_entropy_with_logits(outputs, aligned, reduction="none")
    if losses.numel() != len(losses):
        return losses
    return losses.flatten(), ((outputs > 0) == (aligned > 0.5)).flatten()


def reshape_targets_like_outputs(targets: Tensor, outputs: Tensor) -> Tensor:
    """Return targets in the shape and type of the outputs; axes of length 1 may differ.

    Raises:
        DataError: The shapes differ otherwise.
    """
    expected, given = ([size for size in values.shape[1:] if size != 1] for values in (outputs, targets))
    if expected != given:
        raise DataError(
            f"the network gives {_describe_example_shape(outputs)} for an example, and its target has "
            f"{_describe_example_shape(targets)}: this score compares them value by value"
        )
    return targets.reshape(outputs.shape).to(outputs.dtype)


def _describe_example_shape(values: Tensor) -> str:
    """The shape of one example in words."""
    return f"values of shape {tuple(values.shape[1:])}" if values.ndim > 1 else "one value"
