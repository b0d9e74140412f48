"""The `score` argument: a name, a loss module of torch, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from bln_search.core.errors import DataError, ModelError
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.tasks.cross_entropy import check_class_targets, cross_entropy_and_correctness
from bln_search.tasks.elementwise import absolute_errors, score_binary_logits, squared_errors
from bln_search.tasks.score import Score

ScoreName = Literal["cross_entropy", "mse", "mae", "bce"]
ScoreFunction = Callable[[Tensor, Tensor], Tensor | tuple[Tensor, Tensor]]
"""A function from outputs (n, ...) and targets (n, ...) to per-example losses, alone or with correctness."""

UserScore = ScoreName | ScoreFunction


class ScoreWithOptionalCorrectness:
    """A score function that returns losses and correctness where the function of the user may return losses alone.

    Losses (n, ...) are averaged to (n,). Correctness that does not exist is False for every example.

    Attributes:
        function: The function of the user.
        has_correctness: Whether the last call returned correctness; True before the first call.
    """

    def __init__(self, function: ScoreFunction) -> None:
        self.function = function
        self.has_correctness = True

    def __call__(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and correctness (n,) of outputs (n, ...) and targets (n, ...)."""
        scores = self.function(outputs, targets)
        self.has_correctness = not isinstance(scores, Tensor)
        if not isinstance(scores, Tensor):
            return scores
        correct = torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)
        return _mean_loss_per_example(scores, outputs, targets), correct


def parse_score(score: UserScore) -> Score:
    """Return a score function for the argument `score`.

    Raises:
        TypeError: It is neither a name nor a function.
        ValueError: The name does not exist, or a loss module reduces the losses of a mini-batch to one number.
    """
    if isinstance(score, str):
        if score not in _NAMED_SCORES:
            raise ValueError(
                f"there is no score {score!r}: choose one of {', '.join(_NAMED_SCORES)}, or give a function of outputs "
                'and targets, or a loss module as in torch.nn.HuberLoss(reduction="none")'
            )
        return _wrap_score_function(_NAMED_SCORES[score])
    if not callable(score) or isinstance(score, type):
        kind = f"is the class {score.__name__}" if isinstance(score, type) else f"has the type {type(score).__name__}"
        raise TypeError(
            f"score {kind}: give a name ({', '.join(_NAMED_SCORES)}), a function of outputs and targets, or a loss "
            'module as in torch.nn.MSELoss(reduction="none")'
        )
    reduction = getattr(score, "reduction", "none") if isinstance(score, nn.Module) else "none"
    if reduction != "none":
        name = type(score).__name__
        raise ValueError(
            f"{name}(reduction={reduction!r}) returns one number for a mini-batch, and a score returns one loss for "
            f'each example: use {name}(reduction="none")'
        )
    return _wrap_score_function(score)


def _wrap_score_function(function: ScoreFunction) -> Score:
    """Return the built-in cross-entropy itself, which evaluators recognize; any other function adapted."""
    return (
        cross_entropy_and_correctness
        if function is cross_entropy_and_correctness
        else ScoreWithOptionalCorrectness(function)
    )


def last_score_had_correctness(score: Score) -> bool:
    """Return whether a resolved score returned correctness in its last call."""
    return score.has_correctness if isinstance(score, ScoreWithOptionalCorrectness) else True


def describe_score(score: Score) -> LossDescription:
    """Name and unit of a resolved score; a function or loss module of the user has its own name and no unit."""
    if not isinstance(score, ScoreWithOptionalCorrectness):
        return CROSS_ENTROPY
    if score.function in _DESCRIPTIONS:
        return _DESCRIPTIONS[score.function]
    name = getattr(score.function, "__name__", type(score.function).__name__)
    return LossDescription("loss" if name == "<lambda>" else name)


def check_targets_fit_score(score: Score, targets: Tensor, loader: str, *, classes: int | None = None) -> None:
    """Raise DataError if targets do not fit a named score.

    Args:
        score: A resolved score: `cross_entropy` takes classes, `bce` values from 0 to 1, `mse` and `mae` numbers.
        targets: Targets of a mini-batch.
        loader: The argument of their loader, for the message.
        classes: The number of classes; None where it is unknown.
    """
    if score is cross_entropy_and_correctness:
        check_class_targets(targets, loader, classes)
    function = score.function if isinstance(score, ScoreWithOptionalCorrectness) else None
    if function in (squared_errors, absolute_errors, score_binary_logits) and targets.isnan().any():
        raise DataError(f"{loader} yields targets that are NaN: leave out the examples without a target")
    if function is score_binary_logits and not ((targets >= 0) & (targets <= 1)).all():
        raise DataError(f'{loader} yields targets outside of 0 to 1, which score="bce" does not take')


_NAMED_SCORES: Mapping[str, ScoreFunction] = {
    "cross_entropy": cross_entropy_and_correctness,
    "mse": squared_errors,
    "mae": absolute_errors,
    "bce": score_binary_logits,
}


_DESCRIPTIONS: Mapping[ScoreFunction, LossDescription] = {
    squared_errors: LossDescription("squared error"),
    absolute_errors: LossDescription("absolute error"),
    score_binary_logits: LossDescription("binary cross-entropy", "nats"),
}


def _mean_loss_per_example(losses: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return losses (n,), means over the other axes. Raises ModelError unless the first axis is the example."""
    n = len(outputs)
    if losses.ndim == 0:
        raise ModelError(
            "score returned one number for all outputs, which are of several configurations: return one loss for each "
            'example, as the losses of torch do with reduction="none"'
        )
    if len(losses) != n:
        raise ModelError(
            f"score must return one loss for each of the {n} outputs, which are of several configurations; it returned "
            f"shape {tuple(losses.shape)}"
        )
    if losses.ndim > 1 and _is_loss_shape_broadcast(losses, outputs, targets):
        raise ModelError(
            f"score compares outputs of shape {tuple(outputs.shape)} with targets of shape {tuple(targets.shape)} and "
            f'returns {tuple(losses.shape)}: give both the same shape, or use score="mse", "mae" or "bce", which do so'
        )
    losses = losses if losses.is_floating_point() else losses.float()
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)


def _is_loss_shape_broadcast(losses: Tensor, outputs: Tensor, targets: Tensor) -> bool:
    """Return whether losses have neither shape, but that to which torch broadcasts outputs and targets."""
    if losses.shape in (outputs.shape, targets.shape):
        return False
    try:
        shape = torch.broadcast_shapes(outputs.shape, targets.shape)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return tuple(losses.shape) == tuple(shape)
