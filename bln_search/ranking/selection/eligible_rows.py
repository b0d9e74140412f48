"""Rows that may be recommended: those that predict better than the class frequencies.

A network whose outputs do not depend on its inputs has at least the loss of the class frequencies, and at most their
accuracy. Under a shift every row of a good network may have a higher loss, because it is wrong with confidence. Losses
then prefer the row that knows least, so accuracies decide which rows are eligible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from bln_search.core.class_prior import ClassPriorBaseline


class EligibilityBasis(StrEnum):
    """Why rows are eligible.

    Members:
        LOSS: Their loss is below that of the class frequencies, or these are unknown.
        ACCURACY: No row has such a loss; their accuracy is above that of the class frequencies, that of one row by more
            than two standard errors.
        NONE: No row has such an accuracy either, so all rows are.
    """

    LOSS = "loss"
    ACCURACY = "accuracy"
    NONE = "none"


@dataclass(frozen=True)
class EligibleRows:
    """Which rows may be recommended, (K,), and why."""

    mask: NDArray[np.bool_]
    basis: EligibilityBasis


def find_eligible_rows(
    losses: NDArray[np.float64],
    accuracies: NDArray[np.float64],
    class_priors: Sequence[ClassPriorBaseline | None],
    examples: Sequence[int],
    current: int | None = None,
) -> EligibleRows:
    """Find the rows that are better than the class frequencies in at least one condition.

    Where accuracies decide, the current row is eligible, and rows of a lower mean accuracy are not.

    Args:
        losses: Mean loss of each row in each condition, (K, C).
        accuracies: The same of accuracies; NaN for a score without correctness.
        class_priors: The class-prior baseline of each condition; None where it is unknown.
        examples: Number of examples of each condition.
        current: Index of the row in use; None where there is none.
    """
    is_better = np.any(losses < [math.inf if prior is None else prior.loss for prior in class_priors], axis=1)
    if is_better.any():
        return EligibleRows(is_better, EligibilityBasis.LOSS)
    chance = np.array([prior.accuracy for prior in class_priors if prior is not None])
    if not np.any(accuracies > chance + 2 * np.sqrt(chance * (1 - chance) / examples)):
        return EligibleRows(np.ones(len(losses), bool), EligibilityBasis.NONE)
    is_better = np.any(accuracies > chance, axis=1)
    if current is not None:
        is_better &= accuracies.mean(axis=1) >= accuracies[current].mean()
        is_better[current] = True
    return EligibleRows(is_better, EligibilityBasis.ACCURACY)
