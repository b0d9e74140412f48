"""What an arm did on a stream: a loss, a confidence and a prediction for each example, in the order of the stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.adaptation.stream_plan import StreamPlan


@dataclass(frozen=True)
class StreamOutcomes:
    """Outcomes of one arm on one stream of N examples.

    Attributes:
        losses: Cross-entropy in nats (negative log-likelihood), (N,); infinite after the arm ended.
        correct: Whether each prediction is correct, (N,); false after the arm ended.
        brier: Squared distance between probabilities and the class, summed over classes, (N,).
        confidences: Highest probability, (N,).
        predicted: Predicted class, (N,); -1 after the arm ended.
        end: Why the arm ended before the stream did; empty if it did not.
        batches: Number of mini-batches that it predicted.
        seconds: Time of its predictions and updates.
    """

    losses: NDArray[np.float32]
    correct: NDArray[np.bool_]
    brier: NDArray[np.float32]
    confidences: NDArray[np.float32]
    predicted: NDArray[np.int64]
    end: str
    batches: int
    seconds: float

    @property
    def is_complete(self) -> bool:
        """Whether the arm predicted the whole stream."""
        return not self.end

    @property
    def error(self) -> float:
        """Share of wrong predictions."""
        return 1 - float(self.correct.mean())

    def errors_by_condition(self, plan: StreamPlan) -> dict[str, float]:
        """Share of wrong predictions of each condition."""
        return {name: 1 - float(self.correct[plan.condition_of == i].mean()) for i, name in enumerate(plan.conditions)}


def find_collapse(correct: NDArray[np.bool_], starts: NDArray[np.int64], classes: int) -> int | None:
    """Return the mini-batch from which an arm predicts no better than chance until the end of the stream.

    From there the share of correct predictions is at most 1/classes plus two standard errors, in what remains and in
    each of its quarters. At least a tenth of the stream remains, and what came before was better.

    Args:
        correct: Whether each prediction is correct, (N,).
        starts: Where each mini-batch begins.
        classes: Number of classes.

    Returns:
        The number of the mini-batch, from 0; None without a collapse.
    """
    n = len(correct)
    tail = np.cumsum(correct[::-1])[::-1]
    for number, start in enumerate(starts):
        rest = n - start
        if rest < max(n // 10, 20):
            return None
        if tail[start] <= _highest_by_chance(rest, classes):
            quarters = np.array_split(correct[start:], 4)
            if all(quarter.sum() <= _highest_by_chance(len(quarter), classes) for quarter in quarters):
                return number
    return None


def _highest_by_chance(n: int, classes: int) -> float:
    chance = 1 / classes
    return n * chance + 2 * float(np.sqrt(n * chance * (1 - chance)))
