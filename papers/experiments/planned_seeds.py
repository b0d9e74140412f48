"""Numbers of seeds with which a paired t test would find the differences that are measured so far."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import sqrt
from statistics import fmean, stdev

from scipy import stats

from bln_search.ranking.statistics.intervals import ALPHA

POWER = 0.8
MOST_SEEDS = 100


def seeds_for_power(differences: Sequence[float], power: float = POWER) -> int | None:
    """Return the smallest number of seeds with which the test finds the mean difference with this probability.

    The mean and the standard deviation of the seeds so far are taken as the true ones, and p is not corrected.

    Args:
        differences: One value for each seed, at least two that differ.
        power: Probability.

    Returns:
        The number; None for more than `MOST_SEEDS`.
    """
    effect = fmean(differences) / stdev(differences)
    for seeds in count(2):
        if seeds > MOST_SEEDS:
            return None
        degrees, shift = seeds - 1, abs(effect) * sqrt(seeds)
        bound = stats.t.ppf(1 - ALPHA / 2, degrees)
        if stats.nct.sf(bound, degrees, shift) + stats.nct.cdf(-bound, degrees, shift) >= power:
            return seeds
    return None
