"""Is the mean difference of two rows more than chance, over other seeds and other examples?

A difference d_sn of seed s and example n is taken as mean + seed + example + rest. All seeds meet the same examples, so
the variance of the mean over both is (MS_seed + MS_example − MS_rest)/(S·N), with the mean squares of a two-way
analysis of variance (Clark 1973, "The language-as-fixed-effect fallacy"). Two variances are estimated there, one from
few seeds and one from many examples. Each gets the quantile of its own degrees of freedom, as Banerjee (1960) has it:
an interval is mean ± √((t²(S−1)·MS_seed + t²(N−1)·max(MS_example − MS_rest, 0))/(S·N)), and p is the level at which it
just reaches zero. In simulations that keeps the level for every mixture of the two, far out in the tails as well, where
Holm's correction looks. Satterthwaite's single number of degrees does not: with three seeds it rings twenty times too
often there. A test over the means of the seeds alone forgets that all of them met the same examples: where examples
differ it rings for nothing in half of all cases (tests/ranking/test_false_alarms.py).

Accuracies are counts: seeds that differ by the same number of examples have MS_seed = 0, and by chance alone. As the
mean squares expect MS_seed ≥ MS_rest, the larger of the two is taken for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import LEVEL

_LOWEST = 1e-300
"""No p is lower."""

_HALVINGS = 40

_AT_ONCE = 2**22
"""Differences held at once."""


@dataclass(frozen=True)
class Differences:
    """Of every pair: mean difference (first − second), half of its 95 % interval, and two-sided p; (P,)."""

    mean: Floats
    half: Floats
    p: Floats


def crossed_differences(table: OutcomeTable, metric: str) -> Differences:
    """Every pair of rows compared on `loss` or `accuracy`.

    With one seed the examples alone are chance: the answer is about that network.
    """
    figures = table.figures(metric)
    first, second = table.pairs
    seeds, examples = table.seeds, table.examples
    step = max(1, _AT_ONCE // (seeds * examples))
    chunks = [slice(start, start + step) for start in range(0, len(first), step)]
    squares = [_squares(figures[:, first[chunk]], figures[:, second[chunk]]) for chunk in chunks]
    mean, ss_seed, ss_example, ss_rest = np.concatenate(squares or [np.empty((4, 0))], axis=1)
    values = seeds * examples
    if seeds == 1:
        return _tested(mean, [(ss_example / (examples - 1), examples - 1)], values)
    rest = ss_rest / ((seeds - 1) * (examples - 1))
    of_seeds = ss_seed / (seeds - 1)
    if metric == "accuracy":
        of_seeds = np.maximum(of_seeds, rest)
    of_examples = np.maximum(ss_example / (examples - 1) - rest, 0.0)
    return _tested(mean, [(of_seeds, seeds - 1), (of_examples, examples - 1)], values)


def _squares(first: NDArray[np.float32], second: NDArray[np.float32]) -> Floats:
    """Of each pair the mean difference and the sums of squares of seed, example and rest, (4, P), from (S, P, N).

    From the differences themselves: sums of products of rows would cancel where one row is far from all others.
    """
    differences = first.astype(np.float64) - second
    mean = differences.mean(axis=(0, 2))
    differences -= mean[:, None]
    of_seed = differences.mean(axis=2)
    of_example = differences.mean(axis=0)
    sums = differences.shape[2] * (of_seed**2).sum(axis=0), differences.shape[0] * (of_example**2).sum(axis=1)
    differences -= of_seed[:, :, None]
    differences -= of_example
    return np.stack([mean, *sums, (differences**2).sum(axis=(0, 2))])


def _tested(mean: Floats, parts: Sequence[tuple[Floats, int]], values: int) -> Differences:
    """parts: each a share of the variance of one value, (P,), with its degrees of freedom."""
    half = np.sqrt(_reach(np.full(mean.shape, 1 - LEVEL), parts) / values)
    low, high = _bracket(mean**2 * values, parts)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = _reach(10.0**middle, parts) > mean**2 * values
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    certain = sum(part for part, _ in parts) == 0
    p = np.where(certain, np.where(mean == 0, 1.0, 0.0), np.where(mean == 0, 1.0, 10.0**high))
    return Differences(mean, half, p)


def _bracket(reached: Floats, parts: Sequence[tuple[Floats, int]]) -> tuple[Floats, Floats]:
    """Powers of ten between which p lies: as if the whole variance had the most degrees of freedom, or the fewest."""
    degrees = [number for _, number in parts]
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.sqrt(reached / sum(part for part, _ in parts))
    ends = (2 * special.stdtr(number, -far) for number in (max(degrees), min(degrees)))
    low, high = (np.log10(np.maximum(np.nan_to_num(end, nan=1.0), _LOWEST)) for end in ends)
    return low, high


def _reach(p: Floats, parts: Sequence[tuple[Floats, int]]) -> Floats:
    """The square of how far chance reaches at these levels, in units of the variance of one value."""
    total = np.zeros(p.shape)
    for part, degrees in parts:
        with np.errstate(over="ignore", invalid="ignore"):
            total += np.where(part > 0, special.stdtrit(degrees, p / 2) ** 2 * part, 0.0)
    return total
