"""Seeds and examples drawn anew: what the means of all rows would have been."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bln_search.ranking.paired.crossed_anova import Differences
from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import LEVEL

REPLICATES = 2_000

_FEW = 5
"""Below so many seeds their draws have no shape to go by: 27 outcomes of three."""

_AT_ONCE = 2**25
"""Numbers of weights held at once."""


@dataclass(frozen=True)
class Replicates:
    """Mean of every row in every draw, (B, K), and in the data, (K,)."""

    drawn: Floats
    observed: Floats


def replicates(table: OutcomeTable, *metrics: str, draws: int = REPLICATES, random: int = 0) -> list[Replicates]:
    """Draw seeds, and examples once for all of them, as all seeds meet the same ones; for each of `metrics`.

    This is the pigeonhole bootstrap (Owen 2007), hierarchical in that each draw draws seeds and examples. The draws are
    the same for every metric. random: seed of the draws.
    """
    figures = np.concatenate([table.figures(metric) for metric in metrics], axis=1)
    seeds, rows, examples = figures.shape
    flat = np.ascontiguousarray(figures.reshape(seeds * rows, examples).T)
    generator = np.random.default_rng(random)
    shares = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=draws) / seeds
    drawn = np.empty((draws, rows))
    step = max(1, _AT_ONCE // examples)
    for start in range(0, draws, step):
        part = slice(start, min(start + step, draws))
        weights = _weights(generator, part.stop - start, examples)
        means = (weights @ flat).reshape(-1, seeds, rows) / examples
        drawn[part] = np.einsum("bs,bsk->bk", shares[part], means)
    observed = figures.mean(axis=(0, 2), dtype=np.float64)
    count = len(metrics)
    return [Replicates(*both) for both in zip(np.split(drawn, count, 1), np.split(observed, count), strict=True)]


def _weights(generator: np.random.Generator, count: int, examples: int) -> NDArray[np.float32]:
    """How often each example is drawn, (count, N)."""
    weights = np.empty((count, examples), np.float32)
    for line in weights:
        line[:] = np.bincount(generator.integers(0, examples, examples), minlength=examples)
    return weights


def intervals(
    found: Replicates, differences: Differences, pairs: tuple[NDArray[np.intp], NDArray[np.intp]], seeds: int
) -> tuple[Floats, Floats]:
    """Lower and upper ends (P,) of the 95 % intervals of every difference.

    The draws give the shape, the crossed analysis the width: percentiles alone are far too narrow for few
    seeds and too wide where chance sits in single examples. With fewer than five seeds the interval is symmetrical.
    """
    first, second = pairs
    tail = (1 - LEVEL) / 2
    half = differences.half
    if seeds < _FEW:
        return differences.mean - half, differences.mean + half
    drawn = found.drawn[:, first] - found.drawn[:, second]
    centred = drawn - drawn.mean(axis=0)
    low, high = np.quantile(centred, [tail, 1 - tail], axis=0)
    width = stats.norm.ppf(1 - tail) * drawn.std(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        stretch = np.where(width > 0, half / width, 0.0)
    return differences.mean + stretch * low, differences.mean + stretch * high


def shares_of_first(found: Replicates) -> Floats:
    """How often each row has the lowest mean, (K,); rows that are equal there share."""
    lowest = found.drawn == found.drawn.min(axis=1, keepdims=True)
    shares: Floats = (lowest / lowest.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares
