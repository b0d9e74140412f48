"""What an arm did on a stream: a loss, a confidence and a prediction for each example, in the order of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.streams import SelectionData


@dataclass(frozen=True)
class StreamLayout:
    """Which example of which condition arrives when, of N examples in mini-batches.

    Attributes:
        conditions: Names of the conditions.
        condition_of: Index of the condition of each example, (N,).
        example_of: Index of each example in the data of its condition, (N,).
        starts: Where each mini-batch begins, (mini-batches,).
    """

    conditions: tuple[str, ...]
    condition_of: NDArray[np.int64]
    example_of: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        """Number of mini-batches."""
        return len(self.starts)


@dataclass(frozen=True)
class StreamOutcomes:
    """Outcomes of one arm on one stream of N examples.

    Attributes:
        losses: Cross-entropy in nats (negative log-likelihood), (N,); infinite after the arm ended.
        correct: Whether each prediction is correct, (N,); false after the arm ended.
        brier: Squared distance between probabilities and the class, summed over classes, (N,).
        confidences: Highest probability, (N,).
        end: Why the arm ended before the stream did; empty if it did not.
        batches: Number of mini-batches that it predicted.
        seconds: Time of its predictions and updates; of a shared forward pass each arm counts all.
    """

    losses: NDArray[np.float32]
    correct: NDArray[np.bool_]
    brier: NDArray[np.float32]
    confidences: NDArray[np.float32]
    end: str
    batches: int
    seconds: float

    @property
    def error(self) -> float:
        """Share of wrong predictions."""
        return 1 - float(self.correct.mean())

    @property
    def seconds_per_batch(self) -> float:
        """Mean time of a mini-batch."""
        return self.seconds / max(self.batches, 1)


@dataclass(frozen=True)
class StreamRecord:
    """An arm on one stream.

    Attributes:
        arm: Label of the arm.
        seed: Of the network, or its number.
        order: Number of the random order.
        layout: Of the stream.
        outcomes: Of the arm.
        classes: Number of classes.
        selected_on: Data by which the options of the arm were selected.
        options: Of the method, by name, where they are not its defaults.
        configuration: Configuration with the population estimate, as `BB-- frozen@N16`.
    """

    arm: str
    seed: int
    order: int
    layout: StreamLayout
    outcomes: StreamOutcomes
    classes: int
    selected_on: SelectionData = SelectionData.FIXED
    options: Mapping[str, Any] = field(default_factory=dict)
    configuration: str = ""


def find_collapse(correct: NDArray[np.bool_], starts: NDArray[np.int64], classes: int) -> int | None:
    """Return the mini-batch from which an arm predicts no better than chance until the end of the stream.

    From there the share of correct predictions is at most 1/classes plus two standard errors, in what remains and in
    each of its quarters. At least a tenth of the stream, and 20 examples, remain.

    Args:
        correct: Whether each prediction is correct, (N,).
        starts: Where each mini-batch begins.
        classes: Number of classes.

    Returns:
        The number of the mini-batch, from 0; None without a collapse.
    """
    examples = len(correct)
    right_until_end = np.cumsum(correct[::-1])[::-1]
    for number, start in enumerate(starts):
        rest = examples - int(start)
        if rest < max(examples // 10, 20):
            return None
        if right_until_end[start] <= _largest_count_by_chance(rest, classes):
            quarters = np.array_split(correct[start:], 4)
            if all(quarter.sum() <= _largest_count_by_chance(len(quarter), classes) for quarter in quarters):
                return number
    return None


def _largest_count_by_chance(examples: int, classes: int) -> float:
    """Expected number of correct guesses plus two standard deviations."""
    chance = 1 / classes
    return examples * chance + 2 * float(np.sqrt(examples * chance * (1 - chance)))
