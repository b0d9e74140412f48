"""Losses of outputs that are not one class for each example: value by value, labels, tokens and densities."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError
from bln_search.core.tasks import NO_CLASS


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


def multi_label_cross_entropy_and_correctness(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean binary cross-entropy over the labels in nats, and whether all labels are right.

    Args:
        outputs: logits, (n, labels).
        targets: 1 where the example has the label, otherwise 0, (n, labels).

    Raises:
        DataError: the shapes differ.
    """
    aligned = reshape_targets_like_outputs(targets, outputs)
    losses = F.binary_cross_entropy_with_logits(outputs, aligned, reduction="none")
    return losses.flatten(1).mean(1), ((outputs > 0) == (aligned > 0)).flatten(1).all(1)


def score_token_outputs(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy over the tokens that have a class in nats, and False for every text.

    A text none of whose tokens has a class has the loss 0.

    Args:
        outputs: logits, (n, tokens, classes).
        targets: class of each token, or `NO_CLASS`, (n, tokens).

    Raises:
        DataError: the outputs are not logits of each token.
    """
    if outputs.ndim != 3 or outputs.shape[:2] != targets.shape:
        raise DataError(
            f"the network gives outputs of shape {tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}: "
            "predictions of tokens are logits of shape (texts, tokens, classes)"
        )
    losses = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=NO_CLASS, reduction="none")
    counts = (targets != NO_CLASS).sum(1).clamp(min=1)
    means = losses.view(targets.shape).sum(1) / counts
    return means, means.new_zeros(len(means)).bool()


def score_density_outputs(outputs: Tensor, _targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the negative log-likelihoods that a network gives, in nats, and False for every example.

    Args:
        outputs: negative log-likelihoods or their upper bounds, (n, 1).
        _targets: nothing, (n, 0).

    Raises:
        DataError: the outputs have another shape.
    """
    if outputs.shape != (len(outputs), 1):
        raise DataError(
            f"the network gives outputs of shape {tuple(outputs.shape)}: density takes the negative log-likelihood of "
            "each example, of shape (examples, 1)"
        )
    losses = outputs[:, 0]
    return losses, losses.new_zeros(len(losses)).bool()
