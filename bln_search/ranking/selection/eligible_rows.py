"""Rows that may be recommended: those that predict better than the class frequencies.

A network whose outputs do not depend on its inputs has at least the loss of the class frequencies, and at most their
accuracy. Under a shift every row of a good network may have a higher loss, because it is wrong with confidence. Losses
then prefer the row that knows least, so accuracies decide which rows are eligible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from bln_search.core.class_prior import ClassPriorBaseline


class EligibilityBasis(StrEnum):
    """Why rows are eligible.

    Members:
        LOSS: Their loss is below that of the class frequencies, or these are unknown.
        ACCURACY: No row has such a loss; their accuracy is above that of the class frequencies, that of one row by more
            than two standard errors.
        NONE: No row has such an accuracy either, so the current row is; all rows where there is none.
    """

    LOSS = "loss"
    ACCURACY = "accuracy"
    NONE = "none"


@dataclass(frozen=True)
class EligibleRows:
    """Which rows may be recommended, (K,), and why."""

    mask: tuple[bool, ...]
    basis: EligibilityBasis


def find_eligible_rows(
    losses: Iterable[Sequence[float]],
    accuracies: Sequence[Sequence[float]],
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
    bounds = [math.inf if prior is None else prior.loss for prior in class_priors]
    mask = tuple(any(loss < bound for loss, bound in zip(of_row, bounds, strict=True)) for of_row in losses)
    if any(mask):
        return EligibleRows(mask, EligibilityBasis.LOSS)
    chance = [math.inf if prior is None else prior.accuracy for prior in class_priors]
    certain = [
        share + 2 * math.sqrt(share * (1 - share) / n) if math.isfinite(share) else math.inf
        for share, n in zip(chance, examples, strict=True)
    ]
    if not any(_exceeds_any(of_row, certain) for of_row in accuracies):
        return EligibleRows(tuple(current in (None, row) for row in range(len(mask))), EligibilityBasis.NONE)
    mask = tuple(_exceeds_any(of_row, chance) for of_row in accuracies)
    if current is not None:
        least = fmean(accuracies[current])
        mask = tuple(
            position == current or (is_better and fmean(of_row) >= least)
            for position, (is_better, of_row) in enumerate(zip(mask, accuracies, strict=True))
        )
    return EligibleRows(mask, EligibilityBasis.ACCURACY)


def _exceeds_any(values: Sequence[float], bounds: Sequence[float]) -> bool:
    return any(value > bound for value, bound in zip(values, bounds, strict=True))
