"""What an arm did on a stream: a loss, a confidence and a prediction for each example, in the order of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bln_search.core.streams import SelectionData

_LEAST_CORRECT = 20
"""Correct predictions of the reference in the part of a stream where an arm may collapse."""


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
        method: Name of the method of adaptation; empty where it is not known.
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
    method: str = ""


def find_collapse(correct: NDArray[np.bool_], reference: NDArray[np.bool_], starts: NDArray[np.int64]) -> int | None:
    """Return the mini-batch from which an arm has at most half of the correct predictions of one without adaptation.

    This holds for the rest of the stream as a whole, and for the first quarter of it. Both are compared on the same
    examples, so that a part of the stream that is difficult for every arm is no collapse. At least a tenth of the
    stream remains, in which the reference has at least 20 correct predictions.

    Args:
        correct: Whether each prediction of the arm is correct, (N,).
        reference: The same of the arm without adaptation.
        starts: Where each mini-batch begins.

    Returns:
        The number of the mini-batch, from 0; None without a collapse.
    """
    examples = len(correct)
    own, other = (np.concatenate([[0], np.cumsum(of_arm)]) for of_arm in (correct, reference))

    def has_half_at_most(start: int, end: int) -> bool:
        return bool(2 * (own[end] - own[start]) <= other[end] - other[start])

    for number, first in enumerate(starts):
        start, rest = int(first), examples - int(first)
        if 10 * rest < examples or other[examples] - other[start] < _LEAST_CORRECT:
            return None
        if has_half_at_most(start, examples) and has_half_at_most(start, start + max(rest // 4, 1)):
            return number
    return None
