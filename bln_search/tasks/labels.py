"""Losses of examples with several labels, and of texts with a class for each token."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import DataError
from bln_search.core.tasks import NO_CLASS
from bln_search.tasks.elementwise import reshape_targets_like_outputs


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
