"""Mean loss and accuracy of every configuration, added up mini-batch by mini-batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.layer_search_record import LayerSums


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

    @property
    def of_all(self) -> LayerSums:
        """The same as a record, of every configuration."""
        return LayerSums(None, self.losses, self.correct, self.examples)

    def mean_loss(self) -> NDArray[np.float64]:
        """Of each configuration over all folds."""
        means: NDArray[np.float64] = self.losses.sum(0) / self.examples.sum()
        return means

    def accuracy(self) -> NDArray[np.float64]:
        """Share of right answers of each configuration over all folds."""
        return self.of_all.accuracy
