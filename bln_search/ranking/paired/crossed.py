"""Is the mean difference of two rows more than chance, over other seeds and other examples?

A difference d_sn of seed s and example n is taken as mean + seed + example + rest. All seeds meet the same examples, so
the variance of the mean over both is (MS_seed + MS_example − MS_rest)/(S·N), with the mean squares of a two-way
analysis of variance, and its degrees of freedom are Satterthwaite's (1946); that is the quasi-F of Clark (1973),
"The language-as-fixed-effect fallacy". A test over the means of the seeds alone forgets that all of them met the same
examples: where examples differ, it rings for nothing in half of all cases (tests/ranking/test_false_alarms.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from bln_search.ranking.paired.table import Floats, OutcomeTable


@dataclass(frozen=True)
class Differences:
    """Of every pair: mean difference (first − second), its standard error, degrees of freedom and two-sided p; (P,)."""

    mean: Floats
    error: Floats
    degrees: Floats
    p: Floats


def crossed_differences(table: OutcomeTable, metric: str) -> Differences:
    """Every pair of rows compared on `loss` or `accuracy`.

    With one seed the examples alone are chance: the answer is about that network. Where the estimate of the variance
    falls below one of its parts, the largest part stands for it.
    """
    figures = table.figures(metric).astype(np.float64)
    figures -= figures.mean(axis=1, keepdims=True)  # what all rows share has no part in any difference
    first, second = table.pairs
    seeds, examples = table.seeds, table.examples
    of_seed = figures.mean(axis=2)  # (S, K)
    of_example = figures.mean(axis=0)  # (K, N)
    mean = (of_seed[:, first] - of_seed[:, second]).mean(axis=0)
    every = _squares(np.einsum("skn,sjn->kj", figures, figures, optimize=True), first, second)
    example = _squares(of_example @ of_example.T, first, second)
    seed = ((of_seed[:, first] - of_seed[:, second]) ** 2).sum(axis=0)
    total = mean**2
    ss_example = np.maximum(seeds * (example - examples * total), 0.0)
    if seeds == 1:
        return _tested(mean, ss_example / (examples - 1), np.full(mean.shape, examples - 1.0), examples)
    ss_seed = np.maximum(examples * (seed - seeds * total), 0.0)
    ss_rest = np.maximum(every - seeds * examples * total - ss_seed - ss_example, 0.0)
    squares = ss_seed / (seeds - 1), ss_example / (examples - 1), ss_rest / ((seeds - 1) * (examples - 1))
    variance, degrees = _satterthwaite(*squares, seeds, examples)
    return _tested(mean, variance, degrees, seeds * examples)


def _squares(products: Floats, first: np.ndarray, second: np.ndarray) -> Floats:
    """Sums of squared differences from sums of products (K, K)."""
    own = np.diag(products)
    found: Floats = own[first] + own[second] - 2 * products[first, second]
    return found


def _satterthwaite(seed: Floats, example: Floats, rest: Floats, seeds: int, examples: int) -> tuple[Floats, Floats]:
    """Variance of one value's share in the mean, and its degrees of freedom, from the three mean squares."""
    combined = seed + example - rest
    below = seed**2 / (seeds - 1) + example**2 / (examples - 1) + rest**2 / ((seeds - 1) * (examples - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        degrees = np.where(below > 0, combined**2 / below, 1.0)
    larger = np.maximum(seed, example)
    alone = np.where(seed >= example, seeds - 1.0, examples - 1.0)
    truncated = combined <= larger
    return np.where(truncated, larger, combined), np.where(truncated, alone, np.maximum(degrees, 1.0))


def _tested(mean: Floats, variance: Floats, degrees: Floats, values: int) -> Differences:
    error = np.sqrt(variance / values)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = 2 * stats.t.sf(np.abs(mean) / error, degrees)
    p = np.where(error > 0, p, np.where(mean == 0, 1.0, 0.0))
    return Differences(mean, error, degrees, p)
