"""The `score` argument: a name, a loss module of torch, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from bln_search.api.inputs.torch_losses import ClassLossRecorder, parse_loss_module
from bln_search.core.errors import DataError, ModelError
from bln_search.core.loss_description import CROSS_ENTROPY, LossDescription
from bln_search.tasks.cross_entropy import check_class_targets, cross_entropy_and_correctness
from bln_search.tasks.losses import absolute_errors, score_binary_logits, squared_errors
from bln_search.tasks.score import ExampleScores, Score, Scores, WeightedScore

ScoreName = Literal["cross_entropy", "mse", "mae", "bce"]
ScoreFunction = Callable[[Tensor, Tensor], Tensor | tuple[Tensor, Tensor] | ExampleScores]
"""A function from outputs (n, ...) and targets (n, ...) to losses, alone, with correctness, or with weights."""

UserScore = ScoreName | ScoreFunction

_NAMED_SCORES: Mapping[str, tuple[ScoreFunction, LossDescription]] = {
    "cross_entropy": (cross_entropy_and_correctness, CROSS_ENTROPY),
    "mse": (squared_errors, LossDescription("squared error")),
    "mae": (absolute_errors, LossDescription("absolute error")),
    "bce": (score_binary_logits, LossDescription("binary cross-entropy", "nats")),
}


class ScoreWithOptionalCorrectness(WeightedScore):
    """A score with losses, correctness and weights where the function of the user may return losses alone.

    Losses (n, ...) are averaged to (n,), with the weights of their elements. Correctness that does not exist is False
    for every example.

    Attributes:
        function: The function of the user.
        has_correctness: Whether the last call returned correctness; True before the first call.
        description: Name and unit of a loss of this package; None for a function of the user.
    """

    def __init__(self, function: ScoreFunction) -> None:
        self.function = function
        self.has_correctness = True
        self.description = next((text for named, text in _NAMED_SCORES.values() if named is function), None)
        self._loss = parse_loss_module(function) if isinstance(function, nn.Module) else None

    def __call__(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and correctness (n,) of outputs (n, ...) and targets (n, ...)."""
        losses, correct, _ = self.score_with_weights(outputs, targets)
        return losses, correct

    def score_with_weights(self, outputs: Tensor, targets: Tensor) -> Scores:
        """Return losses, correctness and weights (n,) of outputs (n, ...) and targets (n, ...).

        Raises:
            ModelError: The function returns something else.
            DataError: Outputs and targets do not fit a loss of torch.
        """
        if self.description is not None:
            return self._complete(self.function(outputs, targets), None, outputs, targets)
        with ClassLossRecorder() as recorder:
            returned = self.function(outputs, targets) if self._loss is None else self._call_loss(outputs, targets)
        losses = returned[0] if isinstance(returned, tuple | list) and len(returned) == 2 else returned
        weights = recorder.find_weights(losses) if isinstance(losses, Tensor) and losses.ndim else None
        return self._complete(returned, weights, outputs, targets)

    def _call_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses of the elements by a loss of torch."""
        assert self._loss is not None
        try:
            losses: Tensor = self._loss.module(outputs, targets)
        except torch.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            raise DataError(
                f"{type(self.function).__name__} failed for outputs of type {outputs.dtype} and shape "
                f"{tuple(outputs.shape)} and targets of type {targets.dtype} and shape {tuple(targets.shape)}: {error}"
            ) from error
        return losses

    def _complete(
        self,
        returned: Tensor | tuple[Tensor, Tensor] | ExampleScores,
        weights: Tensor | None,
        outputs: Tensor,
        targets: Tensor,
    ) -> Scores:
        """Scores of each example from what a function returned, and the weights of the elements of its losses."""
        none_correct = torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)
        if isinstance(returned, ExampleScores):
            self.has_correctness = returned.correct is not None
            correct = none_correct if returned.correct is None else returned.correct
            return _average_example_scores(returned, correct, outputs, targets)
        self.has_correctness = not isinstance(returned, Tensor)
        if not isinstance(returned, Tensor):
            if weights is None or not isinstance(returned[1], Tensor):
                return returned  # type: ignore[return-value]  # checked by `score_examples`
            _check_weights(weights, returned[0])
            return _weighted_means_of_examples(returned[0], weights, returned[1])
        if weights is None and self._loss is None:
            return Scores(_mean_loss_per_example(returned, outputs, targets), none_correct)
        _check_losses_of_examples(returned, outputs, targets)
        if weights is not None:
            _check_weights(weights, returned)
            return _weighted_means_of_examples(returned, weights, none_correct)
        elements = returned[:1].numel() if self._loss is not None and self._loss.averages_elements else 1
        losses = _sum_over_elements(returned) / elements
        return Scores(losses, none_correct, losses.new_full((len(returned),), elements))


def parse_score(score: UserScore) -> Score:
    """Return a score function for the argument `score`.

    Raises:
        TypeError: It is neither a name nor a function.
        ValueError: The name does not exist, or a loss module has no loss of each example.
    """
    if isinstance(score, str):
        if score not in _NAMED_SCORES:
            raise ValueError(
                f"there is no score {score!r}: choose one of {', '.join(_NAMED_SCORES)}, or give a function of outputs "
                "and targets, or a loss module as in torch.nn.HuberLoss()"
            )
        function = _NAMED_SCORES[score][0]
    elif not callable(score) or isinstance(score, type):
        kind = f"is the class {score.__name__}" if isinstance(score, type) else f"has the type {type(score).__name__}"
        raise TypeError(
            f"score {kind}: give a name ({', '.join(_NAMED_SCORES)}), a function of outputs and targets, or a loss "
            "module as in torch.nn.MSELoss()"
        )
    else:
        function = score
    if function is cross_entropy_and_correctness:
        return cross_entropy_and_correctness  # which evaluators recognize
    return ScoreWithOptionalCorrectness(function)


def last_score_had_correctness(score: Score) -> bool:
    """Return whether a resolved score returned correctness in its last call."""
    return score.has_correctness if isinstance(score, ScoreWithOptionalCorrectness) else True


def describe_score(score: Score) -> LossDescription:
    """Name and unit of a resolved score; a function or loss module of the user has its own name and no unit."""
    if not isinstance(score, ScoreWithOptionalCorrectness):
        return CROSS_ENTROPY
    if score.description is not None:
        return score.description
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
    if not isinstance(score, ScoreWithOptionalCorrectness):
        return
    if score.description is not None and targets.isnan().any():
        raise DataError(f"{loader} yields targets that are NaN: leave out the examples without a target")
    if score.function is score_binary_logits and not ((targets >= 0) & (targets <= 1)).all():
        raise DataError(f'{loader} yields targets outside of 0 to 1, which score="bce" does not take')


def _mean_loss_per_example(losses: Tensor, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return losses (n,), means over the other axes. Raises ModelError unless the first axis is the example."""
    _check_losses_of_examples(losses, outputs, targets)
    losses = _in_single_precision(losses)
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)


def _average_example_scores(scores: ExampleScores, correct: Tensor, outputs: Tensor, targets: Tensor) -> Scores:
    """Return scores (n,) from those that a function returned with or without weights."""
    losses, weights = scores.losses, scores.weights
    if weights is None:
        return Scores(_mean_loss_per_example(losses, outputs, targets), correct)
    _check_losses_of_examples(losses, outputs, targets)
    _check_weights(weights, losses)
    weighted = torch.where(weights > 0, _in_single_precision(losses) * weights, 0)
    return _weighted_means_of_examples(weighted, weights, correct)


def _weighted_means_of_examples(losses: Tensor, weights: Tensor, correct: Tensor) -> Scores:
    """Return scores (n,) from losses of elements (n, ...) that are multiplied by their weights."""
    sums, totals = _sum_over_elements(losses), _sum_over_elements(weights)
    return Scores(sums / torch.where(totals > 0, totals, 1), correct, totals)


def _sum_over_elements(values: Tensor) -> Tensor:
    """Return the sum of each example (n,) of values (n, ...), which half precision might not hold."""
    values = _in_single_precision(values)
    return values if values.ndim == 1 else values.flatten(1).sum(1)


def _in_single_precision(values: Tensor) -> Tensor:
    """Return values of at least single precision."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _check_weights(weights: Tensor, losses: Tensor) -> None:
    """Raise ModelError unless weights are numbers of at least 0 in the shape and on the device of the losses."""
    if not isinstance(weights, Tensor) or weights.shape != losses.shape or weights.device != losses.device:
        given = f"{tuple(weights.shape)} on {weights.device}" if isinstance(weights, Tensor) else type(weights).__name__
        raise ModelError(
            f"score must return weights in the shape and on the device of its losses, {tuple(losses.shape)} on "
            f"{losses.device}, not {given}"
        )
    if not bool(((weights >= 0) & (weights < torch.inf)).all()):
        raise ModelError("the weights of score are finite numbers of at least 0; some are negative, infinite or NaN")


def _check_losses_of_examples(losses: Tensor, outputs: Tensor, targets: Tensor) -> None:
    """Raise ModelError unless the first axis of losses is the example."""
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


def _is_loss_shape_broadcast(losses: Tensor, outputs: Tensor, targets: Tensor) -> bool:
    """Return whether losses have neither shape, but that to which torch broadcasts outputs and targets."""
    if losses.shape in (outputs.shape, targets.shape):
        return False
    try:
        shape = torch.broadcast_shapes(outputs.shape, targets.shape)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return tuple(losses.shape) == tuple(shape)
