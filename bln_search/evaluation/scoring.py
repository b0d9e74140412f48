"""Loss, correctness and weight of each example."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.tasks.score import Score, Scores, WeightedScore


def score_examples(score: Score, outputs: Tensor, targets: Tensor) -> Scores:
    """Return losses, correctness and weights (n,) of outputs (n, ...) by a score that a user may have written.

    Raises:
        ModelError: the score returns other types or shapes.
    """
    if isinstance(score, WeightedScore):
        scores = score.score_with_weights(outputs, targets)
        weights = scores.weights if isinstance(scores, Scores) else None
        parts = scores[:2] if isinstance(scores, Scores) else scores
        return Scores(*_check_losses_and_correctness(parts, len(outputs)), weights)
    return Scores(*_check_losses_and_correctness(score(outputs, targets), len(outputs)))


def _check_losses_and_correctness(scores: Any, n: int) -> tuple[Tensor, Tensor]:
    if not isinstance(scores, tuple | list) or len(scores) != 2 or not all(isinstance(x, Tensor) for x in scores):
        raise ModelError(
            "score must return a tensor of losses, or two tensors, losses and correctness, with one value for each "
            f"example, not {describe_type(scores)}"
        )
    losses, correct = scores
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


def require_equal_weights_of_rows(weights: Tensor | None, rows: int) -> Tensor | None:
    """Return the weights (n,) of the examples from those of all rows, (rows·n,).

    Raises:
        ModelError: the weights of an example differ between rows.
    """
    if weights is None:
        return None
    by_row = weights.view(rows, -1)
    require_same_weights(by_row[0], by_row)
    return by_row[0]


def require_same_weights(weights: Tensor | None, others: Tensor | None) -> None:
    """Raise ModelError where `others` (..., n), of the same examples in other rows, differ from `weights` (n,)."""
    if weights is None and others is None:
        return
    if weights is None or others is None or not torch.allclose(others, weights.expand_as(others), rtol=1e-6, atol=0):
        raise ModelError(
            "the weights that score= returns differ between the configurations of a network: rows are compared on the "
            "same weights, so compute them from the targets alone"
        )


def describe_type(value: object) -> str:
    """Return the name of a value's type; for a short tuple or list those of its items."""
    if isinstance(value, tuple | list) and len(value) < 5:
        return f"({', '.join(type(item).__name__ for item in value)})"
    return type(value).__name__


def cross_entropy_and_prediction(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return softmax cross-entropy and, in place of correctness, the predicted class."""
    return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1)
