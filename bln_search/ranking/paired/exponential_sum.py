"""The probability that a sum of values with random exponential weights is positive.

With weights E_i of the standard exponential distribution, Σ E_i·v_i has the cumulant generating function
K(s) = -Σ ln(1 - s·v_i). Its saddlepoint, where K'(s) = 0, gives the probability by the formula of Lugannani & Rice
(1980). Where values are 0/1 errors the exact result is a binomial probability, and the relative error is below 2 %.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from bln_search.ranking.paired.table import Floats

_MOST_STEPS = 60
_TOLERANCE = 1e-12
"""Relative size of the step at which the search of the saddlepoint ends."""

_NEAR_ZERO = 1e-4
"""Signed root below which the limit of the formula is used, whose terms would cancel."""


def probability_of_positive_sum(values: Floats) -> Floats:
    """P(Σ E_i·v_i ≥ 0) of each line of values (B, n) with independent exponential weights, (B,).

    It is 0 for a line without positive values, 1 for one without negative values, and 1 where all are 0.
    """
    highest, lowest = values.max(axis=1), values.min(axis=1)
    probability = np.where(lowest >= 0, 1.0, 0.0)
    has_both = (highest > 0) & (lowest < 0)
    if has_both.any():
        mixed = values[has_both]
        probability[has_both] = _saddlepoint_probability(mixed / np.abs(mixed).max(axis=1, keepdims=True))
    return probability


def _saddlepoint_probability(values: Floats) -> Floats:
    """The probability of lines that have positive and negative values, the largest of size 1."""
    saddlepoint = _find_saddlepoint(values)
    factors = 1 - saddlepoint[:, None] * values
    tilted = values / factors
    second, third = (tilted**2).sum(axis=1), 2 * (tilted**3).sum(axis=1)
    root = np.sign(saddlepoint) * np.sqrt(np.maximum(2 * np.log(factors).sum(axis=1), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = 1 / root - 1 / (saddlepoint * np.sqrt(second))
    correction = np.where(np.abs(root) < _NEAR_ZERO, third / second**1.5 / 6, difference)
    density = np.exp(-(root**2) / 2) / np.sqrt(2 * np.pi)
    probability: Floats = np.clip(special.ndtr(-root) - density * correction, 0.0, 1.0)
    return probability


def _find_saddlepoint(values: Floats) -> Floats:
    """The s of each line with Σ v_i/(1 - s·v_i) = 0, by Newton's method within a shrinking interval."""
    low, high = 1 / values.min(axis=1), 1 / values.max(axis=1)
    point = np.zeros(len(values))
    for _ in range(_MOST_STEPS):
        tilted = values / (1 - point[:, None] * values)
        slope, curvature = tilted.sum(axis=1), np.einsum("bn,bn->b", tilted, tilted)
        low, high = np.where(slope < 0, point, low), np.where(slope < 0, high, point)
        step = slope / curvature
        if (np.abs(step) <= _TOLERANCE * np.maximum(1.0, np.abs(point))).all():
            break
        newton = point - step
        point = np.where((low < newton) & (newton < high), newton, (low + high) / 2)
    return point
