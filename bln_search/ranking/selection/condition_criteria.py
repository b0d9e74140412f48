"""Criteria by which a row is selected over several validation conditions: mean, worst loss, regret."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Criterion(StrEnum):
    """What is minimized over conditions.

    Members:
        MEAN: Mean of the losses of all conditions, each with the same weight.
        WORST: Highest loss of any condition.
        REGRET: Largest regret of any condition. The regret of a row in a condition is its loss there minus the lowest
            loss of any row: the cost of not knowing the condition.
    """

    MEAN = "mean"
    WORST = "worst"
    REGRET = "regret"


def regret_by_row_and_condition(losses: Floats) -> Floats:
    """Loss of each row minus the lowest loss of any row in that condition. losses: (K rows, C conditions)."""
    above: Floats = losses - losses.min(axis=0)
    return above


def compute_criterion_values(losses: Floats, criterion: Criterion) -> Floats:
    """Value of each row, (K,). losses: (K rows, C conditions)."""
    if criterion is Criterion.MEAN:
        means: Floats = losses.mean(axis=1)
        return means
    highest: Floats = (regret_by_row_and_condition(losses) if criterion is Criterion.REGRET else losses).max(axis=1)
    return highest


def deciding_condition_by_row(losses: Floats, criterion: Criterion) -> NDArray[np.intp]:
    """Index of the condition that gives each row its value under `WORST` or `REGRET`, (K,)."""
    deciding: NDArray[np.intp] = (
        regret_by_row_and_condition(losses) if criterion is Criterion.REGRET else losses
    ).argmax(axis=1)
    return deciding
