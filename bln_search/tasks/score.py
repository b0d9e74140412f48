"""The type of a score: a loss for each example, and whether its prediction is correct."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor

Score = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""A function from outputs (n, ...) and targets (n, ...) to losses (n,) and correctness (n,), example by example."""


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
