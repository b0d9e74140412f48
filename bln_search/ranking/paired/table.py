"""Per-example outcomes of several configurations, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bln_search.core.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OutcomeTable:
    """What every row did with every example under every seed.

    losses: (S seeds, K rows, N examples), nats. correct: the same shape. The n-th example is the same one throughout.
    """

    losses: NDArray[np.float32]
    correct: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Refuse what cannot be compared."""
        if self.losses.ndim != 3 or self.losses.shape != self.correct.shape:
            raise DataError(
                "outcomes are compared as (seeds, rows, examples), losses and correctness alike; these have the shapes "
                f"{self.losses.shape} and {self.correct.shape}"
            )
        if self.seeds < 1 or self.examples < 2:
            raise DataError(f"{self.seeds} seeds and {self.examples} examples: at least 1 and 2 are needed to compare")
        if not np.isfinite(self.losses).all():
            raise DataError("a loss is not a finite number: leave rows that diverged out of the comparison")

    @property
    def seeds(self) -> int:
        """S."""
        return int(self.losses.shape[0])

    @property
    def rows(self) -> int:
        """K."""
        return int(self.losses.shape[1])

    @property
    def examples(self) -> int:
        """N."""
        return int(self.losses.shape[2])

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First and second row of every pair, the first standing above the second."""
        first, second = np.triu_indices(self.rows, 1)
        return first, second

    def figures(self, metric: str) -> NDArray[np.float32]:
        """(S, K, N) of `loss` or `accuracy`."""
        return self.losses if metric == "loss" else self.correct.astype(np.float32)

    def chosen(self, rows: Sequence[int]) -> OutcomeTable:
        """Some of the rows."""
        return OutcomeTable(self.losses[:, list(rows)], self.correct[:, list(rows)])
