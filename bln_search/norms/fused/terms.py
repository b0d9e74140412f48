"""What the fused kernels compute in one training step of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isnan, nan

from torch import Tensor


class HistoryKind(IntEnum):
    """How values of earlier training steps enter the mini-batch branch.

    Members:
        NONE: Not at all.
        MEMORY: Mean and variance are combined with those of a memory (MBN, Eq. 5-7).
        AVERAGES: Normalized values are corrected towards moving averages (BRN, Eq. 3).
    """

    NONE = 0
    MEMORY = 1
    AVERAGES = 2


@dataclass(frozen=True)
class HistoryTerm:
    """Values of earlier steps, constants to the gradient.

    Attributes:
        kind: How they enter.
        values: (2, C): mean and variance of the memory, or moving averages of mean and deviation; None with `NONE`.
        share: Share of the memory in the combined statistics.
        between_variance: Whether the variance between memory and mini-batch is added.
        r_max: Bound of the factor r of BRN.
        d_max: Bound of the offset d of BRN.
    """

    kind: HistoryKind = HistoryKind.NONE
    values: Tensor | None = None
    share: float = 0.0
    between_variance: bool = False
    r_max: float = 1.0
    d_max: float = 0.0


NO_HISTORY = HistoryTerm()


@dataclass(frozen=True)
class FusedTerms:
    """The numbers of one training step of a layer.

    Attributes:
        epsilon: ε under the root of every deviation.
        batch_weight: Weight of the mini-batch branch; None where the method has none.
        feature_weight: Weight of the feature branch; None where the method has none.
        variance_factor: Factor of the variance of the mini-batch under the root: n/(n − 1) if unbiased, otherwise 1.
        history: Values of earlier steps in the mini-batch branch.
    """

    epsilon: float
    batch_weight: float | None
    feature_weight: float | None
    variance_factor: float = 1.0
    history: HistoryTerm = NO_HISTORY

    @classmethod
    def from_numbers(cls, numbers: Sequence[float], history: Tensor | None) -> FusedTerms:
        """Return the terms whose `as_numbers` these are, with the values of the history."""
        epsilon, batch_weight, feature_weight, variance_factor, kind, share, between_variance, r_max, d_max = numbers
        return cls(
            epsilon,
            None if isnan(batch_weight) else batch_weight,
            None if isnan(feature_weight) else feature_weight,
            variance_factor,
            HistoryTerm(HistoryKind(int(kind)), history, share, bool(between_variance), r_max, d_max),
        )

    @property
    def as_numbers(self) -> list[float]:
        """The terms without the values of the history as numbers, NaN for None: the arguments of an operator."""
        history = self.history
        weights = (nan if weight is None else weight for weight in (self.batch_weight, self.feature_weight))
        bounds = (history.share, float(history.between_variance), history.r_max, history.d_max)
        return [self.epsilon, *weights, self.variance_factor, float(history.kind), *bounds]

    @property
    def own_variance_factor(self) -> float:
        """Factor of the variance of the mini-batch in the variance under the root, the share of the memory included."""
        return self.variance_factor * (1 - self.history.share)
