"""Expected calibration error of predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BINS = 15
"""Number of bins of the confidence, of equal width."""


def expected_calibration_error(
    confidences: NDArray[np.floating], correct: NDArray[np.bool_], bins: int = BINS
) -> float:
    """Return Σ_b (n_b / n)·|accuracy_b − confidence_b| over bins of the confidence (Guo et al. 2017, Eq. 3).

    Args:
        confidences: Highest probability of each prediction, (n,).
        correct: Whether each prediction is correct, (n,).
        bins: Number of bins between 0 and 1, each with its upper end.
    """
    edges = np.linspace(0, 1, bins + 1)
    which = np.clip(np.searchsorted(edges, confidences, side="left") - 1, 0, bins - 1)
    confident = np.bincount(which, confidences, bins)
    right = np.bincount(which, correct, bins)
    return float(np.abs(right - confident).sum() / len(correct))
