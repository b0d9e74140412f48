"""Scores of configurations: of every example, summed over mini-batches, or over the examples of each fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.layer_search_record import FoldScoreSums
from bln_search.evaluation.tree.node_activations import Ids

BYTES_OF_SUMS = 16
"""Bytes of the two sums of one configuration over a mini-batch."""


class BatchScoreSums:
    """Sums of losses and numbers of correct answers of each mini-batch of a group, (configurations, mini-batches)."""

    def __init__(self, configurations: int, batches: int, device: torch.device) -> None:
        self.losses = torch.zeros(configurations, batches, dtype=torch.float64, device=device)
        self.correct = torch.zeros(configurations, batches, dtype=torch.int64, device=device)

    def __call__(self, ids: Ids, losses: Tensor, correct: Tensor) -> None:
        """Add the scores of a chunk of configurations."""
        rows = torch.from_numpy(ids).to(losses.device)
        self.losses[rows] = losses.sum(-1, dtype=torch.float64).view(len(ids), -1)
        self.correct[rows] = correct.sum(-1).view(len(ids), -1)


class ExampleScores:
    """Losses and correctness of every example, in the order of evaluation; `start` is the first of the next group."""

    def __init__(self, configurations: int, examples: int, dtype: torch.dtype) -> None:
        shape = configurations, examples
        self.dtype = torch.float64 if dtype == torch.float64 else torch.float32
        self.losses: NDArray[Any] = torch.empty(shape, dtype=self.dtype).numpy()
        self.correct = np.empty(shape, bool)
        self.start = 0

    def __call__(self, ids: Ids, losses: Tensor, correct: Tensor) -> None:
        """Store the scores of a chunk of configurations."""
        losses, correct = losses.reshape(len(ids), -1).to(self.dtype), correct.reshape(len(ids), -1)
        columns = slice(self.start, self.start + losses.shape[1])
        self.losses[ids, columns] = losses.cpu().numpy()
        self.correct[ids, columns] = correct.cpu().numpy()


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
