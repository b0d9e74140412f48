"""Largest relative difference of losses from expected losses: |actual - expected| / (1 + |expected|)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Losses = NDArray[np.floating[Any]]


def largest_relative_difference(actual: Losses, expected: Losses) -> float:
    """Return the largest |actual - expected| / (1 + |expected|); equal values, and two NaN, do not differ."""
    a, b = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return float(np.where(equal, 0.0, np.abs(a - b) / (1 + np.abs(b))).max(initial=0.0))
