"""Estimates the prior of the true differences of the rows of a table."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.selection.expected_loss import DifferencePrior

_MEDIAN_SQUARE = NormalDist().inv_cdf(0.75) ** 2
"""Median of the square of a standard normal value."""


def estimate_difference_prior(means: NDArray[np.float64], variances: NDArray[np.float64]) -> DifferencePrior:
    """Estimate the prior: the typical squared difference of two rows minus the mean of its variance, at least 0.

    The typical one is the median over all pairs, divided by that of a squared standard normal value, so that a few
    rows which are far from all others count little.

    Args:
        means: Mean loss of each row, but for a constant that all rows share.
        variances: Variances of differences of rows.
    """
    if len(means) < 2:
        return DifferencePrior(0.0)
    first, second = np.triu_indices(len(means), 1)
    typical = np.median(np.square(means[first] - means[second])) / _MEDIAN_SQUARE
    return DifferencePrior(max(0.0, float(typical - np.mean(variances))))
