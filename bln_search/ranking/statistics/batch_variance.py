"""Whether mini-batches differ by more than chance, as those of data that are sorted by class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

_LEVEL = 0.0001
_SMALLEST_RATIO = 1.5
"""Ratio of variances below which a difference, even if significant, changes standard errors by less than a quarter."""


def do_mini_batches_differ(values: NDArray[np.float64], sizes: NDArray[np.intp]) -> bool:
    """Test whether mini-batches vary more than the values within them let expect (F test of ranks).

    Ranks, because losses have heavy tails (Conover & Iman 1981).

    Args:
        values: One value for each example, mini-batch after mini-batch, (n,).
        sizes: Number of examples of each mini-batch.
    """
    between_degrees, within_degrees = len(sizes) - 1, len(values) - len(sizes)
    if between_degrees < 1 or within_degrees < 1:
        return False
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2)[places]
    means = np.add.reduceat(ranks, np.cumsum(sizes) - sizes) / sizes
    between = float((sizes * (means - ranks.mean()) ** 2).sum()) / between_degrees
    within = float(((ranks - np.repeat(means, sizes)) ** 2).sum()) / within_degrees
    if between <= _SMALLEST_RATIO * within:
        return False
    return within == 0 or float(special.fdtrc(between_degrees, within_degrees, between / within)) < _LEVEL
