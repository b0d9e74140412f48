"""Rows compared with one row, the control, over the examples that all of them share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.comparison import MeanDifference
from bln_search.ranking.statistics.intervals import ALPHA
from bln_search.ranking.statistics.student_t import two_sided_p_value, two_sided_t_quantile


def compare_with_control(losses: NDArray[np.float64], control: NDArray[np.float64]) -> list[MeanDifference]:
    """Mean of each row minus that of the control, by the paired t test.

    Intervals and corrected p values hold for all rows together (Bonferroni). Rows equal to the control on each example
    have differences of exactly 0, and do not count in the correction.

    Args:
        losses: Losses of the rows, (K, N).
        control: Losses of the control, (N,), with N of at least 2.
    """
    differences = losses - control
    rows = max(1, int(differences.any(axis=1).sum()))
    examples = differences.shape[1]
    quantile = two_sided_t_quantile(1 - ALPHA / rows, examples - 1)
    compared = []
    for row in differences:
        mean, error = float(row.mean()), float(row.std(ddof=1)) / math.sqrt(examples)
        p = _p_value(mean, error, examples)
        half = quantile * error
        compared.append(MeanDifference(mean=mean, low=mean - half, high=mean + half, p=p, adjusted=min(1.0, rows * p)))
    return compared


def _p_value(mean: float, error: float, examples: int) -> float:
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return two_sided_p_value(mean / error, examples - 1)
