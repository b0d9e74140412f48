"""Losses that compare each example of a split with the others, from the outputs of all mini-batches."""

from __future__ import annotations

import torch
from torch import Tensor

from bln_search.core.records import ExampleOutcomes
from bln_search.evaluation.row_evaluator import OutputObserver
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.tasks.score import ContrastiveScore


class ContrastiveSplitScorer:
    """Keeps the outputs of every row of one split, and compares its examples when all are there.

    Args:
        score: compares the examples.
        observe: called with the outputs, too.
    """

    def __init__(self, score: ContrastiveScore, observe: OutputObserver | None) -> None:
        self._score, self._observe = score, observe
        self._outputs: dict[InferenceRow, list[Tensor]] = {}
        self._targets: dict[InferenceRow, list[Tensor]] = {}

    def add_outputs(self, row: InferenceRow, outputs: Tensor, targets: Tensor) -> None:
        """Keep a copy of the outputs (n, ...) of a row, and their targets."""
        self._outputs.setdefault(row, []).append(outputs.clone())
        self._targets.setdefault(row, []).append(targets)
        if self._observe is not None:
            self._observe(row, outputs, targets)

    def pop_outcomes_of_row(self, row: InferenceRow) -> ExampleOutcomes:
        """Return the loss of each example of the split in a row, whose outputs are then forgotten."""
        outputs, targets = torch.cat(self._outputs.pop(row)), torch.cat(self._targets.pop(row))
        losses, correct = self._score.score_examples_together(outputs, targets)
        values = losses if losses.dtype == torch.float64 else losses.float()
        return ExampleOutcomes(values.cpu().numpy(), correct.cpu().numpy())
