"""Sums of losses and correct answers of every configuration over mini-batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bln_search.core.layer_search_record import FoldScoreSums


@dataclass
class RunningScoreSums:
    """Sums over the examples of each fold.

    Attributes:
        losses: (folds, configurations) float64.
        correct: (folds, configurations) int64, numbers of correct answers.
        examples: (folds,), numbers of examples.
        done: number of mini-batches in the sums, in the order of evaluation.
        total: number of mini-batches.
    """

    losses: NDArray[np.float64]
    correct: NDArray[np.int64]
    examples: NDArray[np.int64]
    done: int = 0
    total: int = 0

    @staticmethod
    def zeros(folds: int, configurations: int) -> RunningScoreSums:
        """Return sums over no mini-batch."""
        shape = folds, configurations
        return RunningScoreSums(np.zeros(shape), np.zeros(shape, np.int64), np.zeros(folds, np.int64))

    @property
    def fold_score_sums(self) -> FoldScoreSums:
        """The sums of all configurations as a record."""
        return FoldScoreSums(None, self.losses, self.correct, self.examples)

    def mean_loss_per_configuration(self) -> NDArray[np.float64]:
        """Return the mean loss of each configuration over all folds."""
        means: NDArray[np.float64] = self.losses.sum(0) / self.examples.sum()
        return means

    def accuracy_per_configuration(self) -> NDArray[np.float64]:
        """Return the fraction of correct answers of each configuration over all folds."""
        return self.fold_score_sums.accuracy_per_configuration
