"""Simulated tables of mean losses by seed and row, and the tests that are compared on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bln_search.ranking.paired.crossed_anova import ContrastEstimates, ContrastVariances
from bln_search.ranking.paired.differences_to_best import compare_rows_with_best
from bln_search.ranking.paired.distinct_rows import DistinctRows
from bln_search.ranking.paired.seed_variances import Pairs

Floats = NDArray[np.float64]

KINDS = ("equal", "two groups", "one outlier", "log-normal", "pairs nearly alike", "correlated", "two outliers")
"""How much rows vary between seeds."""

KINDS_OF_POWER = KINDS[:5]


def scales_of_rows(kind: str, rows: int, rng: np.random.Generator) -> Floats:
    """Standard deviation of each row between seeds."""
    row = np.arange(rows)
    scales = {
        "equal": np.ones(rows),
        "two groups": np.where(row < rows // 2, 1.0, 10.0),
        "one outlier": np.where(row < rows - 1, 1.0, 30.0),
        "log-normal": np.exp(rng.normal(size=rows)),
        "pairs nearly alike": np.where(row % 4 < 2, 0.05, 1.0),
        "correlated": np.ones(rows),
        "two outliers": np.where(row < rows - 2, 1.0, 10.0),
    }
    return scales[kind]


def draw_seed_means(rng: np.random.Generator, seeds: int, scales: Floats, *, in_blocks: bool = False) -> Floats:
    """Mean losses (S, R) of equal rows; in blocks, rows of one of four blocks have an effect of the seed in common."""
    means = rng.normal(size=(seeds, 1)) + scales * rng.normal(size=(seeds, len(scales)))
    if in_blocks:
        means += 3 * rng.normal(size=(seeds, 4))[:, np.arange(len(scales)) % 4]
    return means


def contrasts_of_pairs(means: Floats, pairs: Pairs) -> ContrastVariances:
    """Differences of pairs of rows, which vary between seeds alone."""
    differences = means[:, pairs[0]] - means[:, pairs[1]]
    seeds, none = len(means), np.zeros(differences.shape[1])
    return ContrastVariances(seeds, differences.mean(axis=0), differences.var(axis=0, ddof=1) / seeds, [(none, 10_000)])


def compare_with_row(means: Floats, row: int, margin: float = 0.0) -> ContrastEstimates:
    """Every row minus `row`, as the product tests it."""
    every = np.arange(means.shape[1])
    return compare_rows_with_best(
        DistinctRows(every, every), row, lambda pairs: contrasts_of_pairs(means, pairs), margin
    )


def adjusted_by_t_tests(means: Floats) -> Floats:
    """Corrected p values of all pairs by Student's paired t test with Holm's correction."""
    return contrasts_of_pairs(means, np.triu_indices(means.shape[1], 1)).test().adjusted


def adjusted_with_known_variances(means: Floats, scales: Floats) -> Floats:
    """Those of a test that knows the distribution of the variances; the same bound over rows as the product has."""
    first, second = pairs = np.triu_indices(means.shape[1], 1)
    contrasts = contrasts_of_pairs(means, pairs)
    variances = (scales[first] ** 2 + scales[second] ** 2) / contrasts.seeds
    degrees, rows = contrasts.seeds - 1, len(scales)
    ratios = degrees / 2 * contrasts.of_seeds[:, None] / variances
    weights = np.exp(degrees / 2 * np.log(ratios) - ratios)
    weights /= weights.sum(axis=1, keepdims=True)
    tails = special.ndtr(-np.abs(contrasts.mean)[:, None] / np.sqrt(variances))
    adjusted: Floats = rows * (weights * np.minimum(1.0, (rows - 1) * tails)).sum(axis=1)
    return adjusted
