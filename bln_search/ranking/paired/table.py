"""Outcomes of several rows on the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError

Floats = NDArray[np.float64]

MAX_COMPARED_EXAMPLES = 50_000
"""Number of examples beyond which a comparison uses a sample of this size: its time grows with their number."""


@dataclass(frozen=True)
class OutcomeTable:
    """Outcomes of every row on every example under every seed; the n-th example is the same for all of them.

    Attributes:
        losses: Loss of each example, (S seeds, K rows, N examples); N = 1 where there is one score for each seed.
        correct: Whether the prediction is correct, or the share of networks of which it is, same shape; 0 everywhere
            for a score without correctness.
        has_correctness: Whether the score says if a prediction is correct.
        sampled_from: Number of examples from which these were drawn at random; None where these are all.
        targets: Fingerprints of the targets of the examples, (N,); None where they are unknown.
    """

    losses: NDArray[np.float32] | Floats
    correct: NDArray[np.bool_] | NDArray[np.float32]
    has_correctness: bool = True
    sampled_from: int | None = None
    targets: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        """Raise DataError for outcomes that cannot be compared."""
        if self.losses.ndim != 3 or self.losses.shape != self.correct.shape:
            raise DataError(
                "outcomes are compared as (seeds, rows, examples), losses and correctness alike; these have the shapes "
                f"{self.losses.shape} and {self.correct.shape}"
            )
        if min(self.num_seeds, self.num_examples) < 1 or self.num_seeds == self.num_examples == 1:
            raise DataError(
                f"{self.num_seeds} seeds and {self.num_examples} examples: at least two seeds or two examples are "
                "needed to compare"
            )
        if not np.isfinite(self.losses).all():
            raise DataError("a loss is not a finite number: leave rows that diverged out of the comparison")

    @property
    def num_seeds(self) -> int:
        """Number of seeds S."""
        return int(self.losses.shape[0])

    @property
    def num_rows(self) -> int:
        """Number of rows K."""
        return int(self.losses.shape[1])

    @property
    def num_examples(self) -> int:
        """Number of examples N."""
        return int(self.losses.shape[2])

    @cached_property
    def row_pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and second row of every pair, (P,) each, with first < second."""
        first, second = np.triu_indices(self.num_rows, 1)
        return first, second

    def metric_values(self, metric: str) -> NDArray[np.float32] | Floats:
        """Values of `loss` or `accuracy`, (S, K, N)."""
        return self.losses if metric == "loss" else self.correct.astype(np.float32)

    def average_over_seeds(self) -> OutcomeTable:
        """Mean outcomes of these networks on each example, as of one seed: only examples vary."""
        return OutcomeTable(
            self.losses.mean(axis=0, keepdims=True, dtype=np.float64).astype(np.float32),
            self.correct.mean(axis=0, keepdims=True, dtype=np.float32),
            has_correctness=self.has_correctness,
            sampled_from=self.sampled_from,
            targets=self.targets,
        )

    def take_examples(self, indices: NDArray[np.intp]) -> OutcomeTable:
        """The outcomes of these examples in this order."""
        targets = None if self.targets is None else self.targets[indices]
        return replace(self, losses=self.losses[:, :, indices], correct=self.correct[:, :, indices], targets=targets)

    def restrict_to_rows(self, rows: Sequence[int]) -> OutcomeTable:
        """The outcomes of these rows."""
        return replace(self, losses=self.losses[:, list(rows)], correct=self.correct[:, list(rows)])


def draw_compared_examples(examples: int) -> NDArray[np.intp] | None:
    """Return the sorted positions of the examples that are compared, None for all. The same for each call."""
    if examples <= MAX_COMPARED_EXAMPLES:
        return None
    positions: NDArray[np.intp] = np.random.default_rng(0).choice(examples, MAX_COMPARED_EXAMPLES, replace=False)
    return np.sort(positions)
