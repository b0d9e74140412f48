"""Losses and correctness of the examples of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ExampleOutcomes:
    """Per-example results of one evaluation, in the order of the split.

    Attributes:
        losses: Losses, (n,); for classes in nats; float64 for a float64 network, otherwise float32.
        correct: Whether the prediction is correct, (n,); False for every example of a task without accuracy.
        weights: Weight of each example in the mean, (n,); 0 for one that is left out. None for equal weights.
    """

    losses: NDArray[np.float32] | NDArray[np.float64]
    correct: NDArray[np.bool_]
    weights: NDArray[np.float64] | None = None

    @property
    def left_out(self) -> int:
        """Number of examples with the weight 0."""
        return 0 if self.weights is None else int((self.weights == 0).sum())

    @property
    def num_not_finite(self) -> int:
        """Number of examples whose loss is not a finite number."""
        return int((~np.isfinite(self.losses)).sum())

    @property
    def mean_loss(self) -> float:
        """Mean loss with equal weights."""
        return float(self.losses.mean(dtype=np.float64))

    @property
    def accuracy(self) -> float:
        """Fraction of correct predictions."""
        return float(self.correct.mean())

    def linearized(self) -> ExampleOutcomes:
        """Outcomes of the examples that count, with equal weights, whose mean is the weighted mean L.

        Losses are L + (w/w̄)·(l - L): the linearization of the ratio Σ w·l / Σ w (Cochran 1977, section 6.5). Their
        differences between rows have the variance of the difference of the ratios.
        """
        if self.weights is None:
            return self
        counts = self.weights > 0
        weights, losses = self.weights[counts], self.losses[counts].astype(np.float64)
        mean = np.average(losses, weights=weights) if len(losses) else np.nan
        values = mean + weights / weights.mean() * (losses - mean) if len(losses) else losses
        return ExampleOutcomes(values, self.correct[counts])
