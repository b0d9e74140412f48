"""Loss and correctness of each example."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from bln_search.core.errors import ModelError
from bln_search.tasks.score import Score


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


def cross_entropy_and_prediction(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return softmax cross-entropy and, in place of correctness, the predicted class."""
    return F.cross_entropy(outputs, targets, reduction="none"), outputs.argmax(1)
