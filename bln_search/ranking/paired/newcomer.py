"""Test whether a new row is worse than the best of the rows before it, while rows still arrive one after another.

Given the variance between seeds, a row that is as good as m rows before it is by chance worse than one of them, by as
much as it is worse than the best, with a probability of at most m·P(one) and at most 1. The variance between seeds is
moderated by the other pairs of rows (`seed_variances`). Rows that are complete have more seeds than the new one, and
tell more about it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from bln_search.ranking.paired.crossed_anova import MIN_MODERATED_ROWS, MIN_MODERATED_SEEDS
from bln_search.ranking.paired.distinct_rows import find_distinct_rows
from bln_search.ranking.paired.seed_variances import estimate_seed_variances
from bln_search.ranking.paired.table import Floats

_MAX_ROWS = 24
"""Number of rows of which pairs are formed: the new one and those of lowest mean loss."""

_SAME_DIFFERENCE = 1e-9
"""Relative spread up to which differences are equal but for rounding."""


def p_value_of_newcomer(losses: Floats, rivals: int) -> float:
    """One-sided p value of a new row that is no worse than any row before it.

    It is 1 for differences that are equal under all seeds: so are those of scores that are rounded coarsely.

    Args:
        losses: Losses (S, K) of the new row, which is the first, and of K − 1 ≥ 1 rows before it. They are NaN for
            seeds that a row does not have; the rows have all seeds of the new one.
        rivals: Number of rows with which the new row could have been compared, at least K − 1.
    """
    shared = np.isfinite(losses[:, 0])
    seeds = int(shared.sum())
    nearest = 1 + np.argsort(losses[shared, 1:].mean(axis=0), kind="stable")
    losses = losses[:, [0, *nearest[: _MAX_ROWS - 1]]]
    losses = losses / (np.nanmax(np.abs(losses)) or 1.0)  # squares of diverged losses overflow
    differences = losses[shared, 0] - losses[shared, 1]
    mean = float(differences.mean())
    if mean <= 0 or np.ptp(differences) <= _SAME_DIFFERENCE * mean:
        return 1.0
    losses = losses[:, find_distinct_rows(losses[shared][:, :, None]).kept]
    if losses.shape[1] < MIN_MODERATED_ROWS or seeds < MIN_MODERATED_SEEDS:
        error = float(differences.std(ddof=1)) / math.sqrt(seeds)
        return min(1.0, rivals * float(special.stdtr(seeds - 1, -mean / error)))
    first, second = pairs = np.triu_indices(losses.shape[1], 1)
    of_pairs = losses[:, first] - losses[:, second]
    degrees = np.isfinite(of_pairs).sum(axis=0) - 1
    moderated = estimate_seed_variances(np.nanvar(of_pairs, axis=0, ddof=1), degrees, pairs, losses.shape[1])
    tails = special.ndtr(-mean / np.sqrt(moderated.variances / seeds))
    return float(moderated.weights[0] @ np.minimum(1.0, rivals * tails))  # the first pair: the new row and the best
