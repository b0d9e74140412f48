"""The types of a score: a loss for each example, whether its prediction is correct, and what it weighs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

Score = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A function from outputs (n, ...) and targets (n, ...) to losses (n,) and correctness (n,), example by example."""


class Scores(NamedTuple):
    """Scores of examples, or of rows × examples.

    Attributes:
        losses: Losses; of an example with weight 0 the loss is 0.
        correct: Correctness, in the shape of the losses.
        weights: Weight of each example, the same in all rows; None for equal weights.
    """

    losses: Tensor
    correct: Tensor
    weights: Tensor | None = None


@dataclass(frozen=True)
class ExampleScores:
    """What a function given as `score=` may return: losses with weights.

    The mean loss over a split is Σ w·l / Σ w. An example whose weights are all 0 is left out, and counted as such.

    Attributes:
        losses: Losses of the examples, (n,), or of their elements, (n, ...), not multiplied by the weights.
        weights: Weights of at least 0, in the shape of the losses; they must not depend on the outputs. None for equal
            weights of the examples.
        correct: A bool for each example, (n,); None for a loss without accuracy.
    """

    losses: Tensor
    weights: Tensor | None = None
    correct: Tensor | None = None


class WeightedScore(ABC):
    """A score whose examples may have weights, such as the number of their pixels with a class."""

    @abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and correctness (n,)."""

    @abstractmethod
    def score_with_weights(self, outputs: Tensor, targets: Tensor) -> Scores:
        """Return losses, correctness and weights (n,)."""


class ContrastiveScore(ABC):
    """A score whose losses compare each example with the other examples of a mini-batch or a split.

    Calling it gives a number of each example on its own, by which two passes over the same examples are compared.
    """

    @abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return a number of each example, (n,), and correctness, (n,), from the outputs for this example alone."""

    @abstractmethod
    def score_examples_together(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and correctness (n,) of all examples of a mini-batch or a split."""
