"""Results of a traversal: sums of each mini-batch, or the values of every example."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
