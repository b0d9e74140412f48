"""Test of the mean difference of two rows over seeds and examples, both as random effects.

The difference d_sn of seed s and example n is modelled as mean + seed + example + residual. All seeds share the same
examples, so the variance of the mean over both is (MS_seed + MS_example − MS_residual)/(S·N), with the mean squares of
a two-way analysis of variance (Clark 1973, "The language-as-fixed-effect fallacy"). Two variances are estimated, one
from few seeds and one from many examples. Each gets the quantile of its own degrees of freedom (Banerjee 1960): the
interval is mean ± √((t²(S−1)·MS_seed + t²(N−1)·max(MS_example − MS_residual, 0))/(S·N)), and p is the level at which it
just reaches zero. In simulations this keeps the significance level for every mixture of the two variances, in the far
tails as well, where Holm's correction operates. Satterthwaite's approximation does not: with three seeds its rate of
false positives there is twenty times the nominal level. A test over the means of the seeds alone ignores that all seeds
share the same examples: where examples differ, half of its results are false positives
(tests/ranking/paired/test_false_alarms.py).

Accuracies are counts: seeds that differ by the same number of examples have MS_seed = 0 by chance. As the expected mean
squares satisfy MS_seed ≥ MS_residual, the larger of the two is used for accuracies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bln_search.ranking.paired.table import Floats, OutcomeTable
from bln_search.ranking.statistics.intervals import CONFIDENCE_LEVEL

_MIN_P = 1e-300
"""Lower limit of p values."""

_BISECTIONS = 40

_MAX_DIFFERENCES_IN_MEMORY = 2**22
"""Limit on the number of differences in memory."""


@dataclass(frozen=True)
class ContrastEstimates:
    """All pairs, each (P,): mean difference (first − second), half-width of its 95 % interval, two-sided p value."""

    mean: Floats
    half: Floats
    p: Floats


def crossed_anova_differences(table: OutcomeTable, metric: str) -> ContrastEstimates:
    """Compare all pairs of rows on `loss` or `accuracy`.

    With one seed only examples are a random effect: the result applies to that network.
    """
    values_of_rows = table.metric_values(metric)
    first, second = table.row_pairs
    seeds, examples = table.num_seeds, table.num_examples
    step = max(1, _MAX_DIFFERENCES_IN_MEMORY // (seeds * examples))
    chunks = [slice(start, start + step) for start in range(0, len(first), step)]
    squares = [
        _mean_difference_and_sums_of_squares(values_of_rows[:, first[chunk]], values_of_rows[:, second[chunk]])
        for chunk in chunks
    ]
    mean, ss_seed, ss_example, ss_residual = np.concatenate(squares or [np.empty((4, 0))], axis=1)
    values = seeds * examples
    if seeds == 1:
        return intervals_and_p_values_of_means(mean, [(ss_example / (examples - 1), examples - 1)], values)
    ms_residual = ss_residual / ((seeds - 1) * (examples - 1))
    of_seeds = ss_seed / (seeds - 1)
    if metric == "accuracy":
        of_seeds = np.maximum(of_seeds, ms_residual)
    of_examples = np.maximum(ss_example / (examples - 1) - ms_residual, 0.0)
    return intervals_and_p_values_of_means(mean, [(of_seeds, seeds - 1), (of_examples, examples - 1)], values)


def _mean_difference_and_sums_of_squares(first: NDArray[np.float32], second: NDArray[np.float32]) -> Floats:
    """Mean difference and sums of squares of seed, example and residual for each pair, (4, P), from (S, P, N).

    They are computed from the differences themselves, because sums of products of rows would suffer from cancellation
    where one row is far from all others.
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


def intervals_and_p_values_of_means(
    mean: Floats, parts: Sequence[tuple[Floats, int]], values: int
) -> ContrastEstimates:
    """Intervals and p values of means.

    Args:
        mean: Means, (P,).
        parts: Components of the variance of one value, (P,), with their degrees of freedom.
        values: Number of values of which `mean` is the mean; 1 if `parts` are components of the variance of the mean.
    """
    half = np.sqrt(_squared_half_widths(np.full(mean.shape, 1 - CONFIDENCE_LEVEL), parts) / values)
    low, high = _log10_p_value_bounds(mean**2 * values, parts)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        too_low = _squared_half_widths(10.0**middle, parts) > mean**2 * values
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    no_variance = sum(part for part, _ in parts) == 0
    p = np.where(no_variance, np.where(mean == 0, 1.0, 0.0), np.where(mean == 0, 1.0, 10.0**high))
    return ContrastEstimates(mean, half, p)


def _log10_p_value_bounds(reached: Floats, parts: Sequence[tuple[Floats, int]]) -> tuple[Floats, Floats]:
    """Bounds of log10(p): the whole variance with the largest number of degrees of freedom, and with the smallest."""
    degrees = [number for _, number in parts]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.sqrt(reached / sum(part for part, _ in parts))
    ends = (2 * special.stdtr(number, -t) for number in (max(degrees), min(degrees)))
    low, high = (np.log10(np.maximum(np.nan_to_num(end, nan=1.0), _MIN_P)) for end in ends)
    return low, high


def _squared_half_widths(p: Floats, parts: Sequence[tuple[Floats, int]]) -> Floats:
    """Square of the half-width of the interval at these levels, times the number of values."""
    total = np.zeros(p.shape)
    for part, degrees in parts:
        with np.errstate(over="ignore", invalid="ignore"):
            total += np.where(part > 0, special.stdtrit(degrees, p / 2) ** 2 * part, 0.0)
    return total
