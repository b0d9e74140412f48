"""Outcomes of a split: of its parts, joined, and of losses that compare each example with the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bln_search.core.example_outcomes import ExampleOutcomes
from bln_search.evaluation.batches import MiniBatch
from bln_search.evaluation.row_evaluator import OutputObserver
from bln_search.norms.row_batching.row_tensor import InferenceRow
from bln_search.tasks.score import ContrastiveScore, Scores

Weights = NDArray[np.float64]


class ContinuedRows(Protocol):
    """Rows whose evaluation of a part continues that of the part before."""

    def iter_scores(
        self, batches: Iterable[MiniBatch], rows: Sequence[InferenceRow], observe: OutputObserver | None
    ) -> Iterator[Scores]:
        """Yield losses and correctness (rows, n) of each mini-batch in some of the rows."""


@dataclass
class EarlierParts:
    """What the evaluation of earlier parts of a split has found in the rows of a network.

    Attributes:
        ill_conditioned: Rows whose losses are rounding errors; None before the first part.
        moving_rows: Rows with moving statistics, after the last mini-batch of their streams; None without such rows.
    """

    ill_conditioned: set[InferenceRow] | None = None
    moving_rows: ContinuedRows | None = None


def join_outcomes(parts: Sequence[ExampleOutcomes], order: NDArray[np.intp]) -> ExampleOutcomes:
    """The outcomes of one row on all parts.

    Args:
        parts: Outcomes on each part, with the weights of `join_weights`.
        order: Positions of the joined outcomes in the order of the result, (n,).
    """
    weights = without_equal_weights(
        join_weights([part.weights for part in parts], [len(part.losses) for part in parts])
    )
    return ExampleOutcomes(
        np.concatenate([part.losses for part in parts])[order],
        np.concatenate([part.correct for part in parts])[order],
        None if weights is None else weights[order],
    )


def join_weights(weights: Sequence[Weights | None], sizes: Sequence[int]) -> Weights | None:
    """The weights of all examples, 1 in parts without weights; None if no part has weights.

    Args:
        weights: Of the examples of each part; None for a score without weights.
        sizes: Number of examples of each part.
    """
    if all(of_part is None for of_part in weights):
        return None
    return np.concatenate(
        [np.ones(n) if of_part is None else of_part for of_part, n in zip(weights, sizes, strict=True)]
    )


def without_equal_weights(weights: Weights | None) -> Weights | None:
    """The weights; None if all examples weigh the same."""
    return None if weights is None or (weights[0] > 0 and (weights == weights[0]).all()) else weights


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
