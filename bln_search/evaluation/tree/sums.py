"""Mean loss and accuracy of every configuration, added up mini-batch by mini-batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class Sums:
    """Sums over the examples of each fold.

    losses: (folds, configurations) float64, nats. correct: (folds, configurations) int64. examples: (folds,).
    done: how many mini-batches are in, in the order in which they are walked, out of `total`.
    """

    losses: NDArray[np.float64]
    correct: NDArray[np.int64]
    examples: NDArray[np.int64]
    done: int = 0
    total: int = 0

    @staticmethod
    def empty(folds: int, configurations: int) -> Sums:
        """Nothing yet."""
        shape = folds, configurations
        return Sums(np.zeros(shape), np.zeros(shape, np.int64), np.zeros(folds, np.int64))

    def mean_loss(self, folds: list[int] | None = None) -> NDArray[np.float64]:
        """Mean loss of each configuration over these folds, by default over all."""
        chosen = slice(None) if folds is None else folds
        means: NDArray[np.float64] = self.losses[chosen].sum(0) / self.examples[chosen].sum()
        return means

    def accuracy(self, folds: list[int] | None = None) -> NDArray[np.float64]:
        """Share of right answers of each configuration over these folds, by default over all."""
        chosen = slice(None) if folds is None else folds
        shares: NDArray[np.float64] = self.correct[chosen].sum(0) / self.examples[chosen].sum()
        return shares
