"""Bootstrap of seeds and examples: distribution of the means of all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bln_search.ranking.paired.crossed_anova import ContrastEstimates
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import CONFIDENCE_LEVEL

BOOTSTRAP_DRAWS = 2_000

_MIN_SEEDS_FOR_SHAPE = 5
"""Minimum number of seeds whose bootstrap distribution gives the shape of an interval; three have 27 outcomes."""

_MAX_WEIGHTS_IN_MEMORY = 2**25
"""Limit on the number of bootstrap weights in memory."""


@dataclass(frozen=True)
class BootstrapMeans:
    """Means of all rows: in every draw, (B, K), and in the data, (K,)."""

    drawn: Floats
    observed: Floats


def bootstrap_row_means(
    table: OutcomeTable, *metrics: str, draws: int = BOOTSTRAP_DRAWS, random: int = 0
) -> list[BootstrapMeans]:
    """Draw seeds and examples with replacement; all seeds of a draw share its examples.

    This is the pigeonhole bootstrap (Owen 2007), hierarchical in that each draw draws seeds and examples.

    Args:
        table: Outcomes.
        metrics: `loss` or `accuracy`; the draws are the same for all of them.
        draws: Number of draws B.
        random: Seed of the draws.

    Returns:
        The means for each of `metrics`.
    """
    values = np.concatenate([table.metric_values(metric) for metric in metrics], axis=1)
    seeds, rows, examples = values.shape
    flat = np.ascontiguousarray(values.reshape(seeds * rows, examples).T)
    generator = np.random.default_rng(random)
    shares = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds
    drawn = np.empty((draws, rows))
    step = max(1, _MAX_WEIGHTS_IN_MEMORY // examples)
    for start in range(0, draws, step):
        part = slice(start, min(start + step, draws))
        weights = _draw_example_counts(generator, part.stop - start, examples)
        means = (weights @ flat).reshape(-1, seeds, rows) / examples
        drawn[part] = np.einsum("bs,bsk->bk", shares[part], means)
    observed = values.mean(axis=(0, 2), dtype=np.float64)
    count = len(metrics)
    return [BootstrapMeans(*parts) for parts in zip(np.split(drawn, count, 1), np.split(observed, count), strict=True)]


def _draw_example_counts(generator: np.random.Generator, count: int, examples: int) -> NDArray[np.float32]:
    """Number of times each example is drawn, (count, N)."""
    weights = np.empty((count, examples), np.float32)
    for line in weights:
        line[:] = np.bincount(generator.integers(0, examples, examples), minlength=examples)
    return weights


def bootstrap_shaped_difference_intervals(
    means: BootstrapMeans, differences: ContrastEstimates, pairs: tuple[NDArray[np.intp], NDArray[np.intp]], seeds: int
) -> tuple[Floats, Floats]:
    """Ends of the 95 % confidence intervals of the differences of all pairs.

    The bootstrap gives the shape and the crossed analysis of variance the width: percentile intervals are far too
    narrow for few seeds and too wide where the variance is that of single examples. With fewer than five seeds
    intervals are symmetric.

    Args:
        means: Bootstrap means.
        differences: ContrastEstimates of the crossed analysis of variance.
        pairs: First and second row of every pair, each (P,).
        seeds: Number of seeds.

    Returns:
        Lower and upper ends, each (P,).
    """
    first, second = pairs
    tail = (1 - CONFIDENCE_LEVEL) / 2
    half = differences.half
    if seeds < _MIN_SEEDS_FOR_SHAPE:
        return differences.mean - half, differences.mean + half
    drawn = means.drawn[:, first] - means.drawn[:, second]
    centred = drawn - drawn.mean(axis=0)
    low, high = np.quantile(centred, [tail, 1 - tail], axis=0)
    width = stats.norm.ppf(1 - tail) * drawn.std(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        stretch = np.where(width > 0, half / width, 0.0)
    return differences.mean + stretch * low, differences.mean + stretch * high


def first_place_share_of_each_row(means: BootstrapMeans) -> Floats:
    """Share of draws in which each row has the lowest mean, (K,); equal rows share a draw."""
    lowest = means.drawn == means.drawn.min(axis=1, keepdims=True)
    shares: Floats = (lowest / lowest.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares
