"""Loss and accuracy of a row: means over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bln_search.core.records import Evaluation


@dataclass(frozen=True)
class MeanStd:
    """Mean and standard deviation over seeds (n − 1 in the denominator); the deviation is None for one seed."""

    mean: float
    deviation: float | None

    @staticmethod
    def of(values: Sequence[float]) -> MeanStd:
        """Mean and standard deviation of one value or more."""
        if min(values) == max(values):  # rounding of the mean must not make the deviation of equal values positive
            return MeanStd(values[0], None if len(values) < 2 else 0.0)
        mean = math.fsum(values) / len(values)
        return MeanStd(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)))


@dataclass(frozen=True)
class SplitMetrics:
    """Loss and accuracy (fraction) on one split.

    Attributes:
        loss: Mean loss, in nats where it is cross-entropy.
        accuracy: None for a score without correctness, as that of a regression.
    """

    loss: MeanStd
    accuracy: MeanStd | None

    @staticmethod
    def of(evaluations: Sequence[Evaluation]) -> SplitMetrics | None:
        """Means over the evaluations, one for each seed; None unless every evaluation is measured."""
        losses = [item.loss for item in evaluations if item.loss is not None]
        accuracies = [item.accuracy for item in evaluations if item.accuracy is not None]
        if not evaluations or len(losses) < len(evaluations):
            return None
        has_accuracy = len(accuracies) == len(evaluations)
        return SplitMetrics(MeanStd.of(losses), MeanStd.of(accuracies) if has_accuracy else None)
