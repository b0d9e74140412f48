"""Moderated variances between seeds: what all pairs of rows tell about the variance of each pair (empirical Bayes).

With S seeds the variance of the difference of two rows has S − 1 degrees of freedom, with three seeds two: a t test of
one pair has hardly any power. The pairs of a table inform each other (Smyth 2004). Here the distribution of their
variances is estimated as a mixture on a grid of log variances, without a parametric form (Ignatiadis & Sen 2023). A few
rows that vary much more, and groups of rows with variances of their own, remain what they are.

Of each pair the prior is the mixture of

- what the pairs of all *other* rows show: a pair shares its noise with every pair of its two rows, which are left out;
- a uniform distribution of log variances, with the weight of `_BASE_ROWS` rows. It alone gives Student's t test of the
  pair.

A few steps of the EM algorithm estimate the mixture. More steps fit the noise of the sample variances, which raises the
error rate where variances are spread log-normally. `bench.answers` measures error and power.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]

_BASE_ROWS = 0.4
_EM_STEPS = 3
_LOG_STEP = 0.25
"""Largest distance of the points of the grid of log variances."""

_BELOW, _ABOVE = 2.0, 10.0
"""How far the grid reaches below the smallest and above the largest sample variance, in units of log variance."""

_SMALLEST_SHARE = 1e-6
"""Variances of 0, as of rows that differ equally in all seeds, count as this share of the smallest other one."""

_EXACT_DEGREES = 100
"""Degrees of freedom from which Student's t is approximated by a normal distribution, at p = 1e-5 within 3 %."""

_BISECTIONS = 40


@dataclass(frozen=True)
class SeedVariances:
    """Posterior distributions of the variance that seeds add to the mean difference of each pair of rows.

    Attributes:
        variances: Grid, (G,).
        weights: Probability of each of them for each pair, (P, G).
        num_rows: Number of rows R.
    """

    variances: Floats
    weights: Floats
    num_rows: int

    def take(self, pairs: slice) -> SeedVariances:
        """Those of these pairs."""
        return replace(self, weights=self.weights[pairs])

    @property
    def medians(self) -> Floats:
        """Median of the variance of each pair, (P,)."""
        medians: Floats = self.variances[(self.weights.cumsum(axis=1) < 0.5).sum(axis=1)]
        return medians

    def p_values(self, mean: Floats, of_examples: Floats, degrees: int) -> Floats:
        """Two-sided p values of differences of 0, (P,).

        Args:
            mean: Mean differences, (P,).
            of_examples: Variance that examples add to the mean difference, (P,).
            degrees: Degrees of freedom of `of_examples`.
        """
        p: Floats = 2 * (self.weights * self._tails(mean, of_examples, degrees)).sum(axis=1)
        return p

    def adjusted_p_values(self, mean: Floats, of_examples: Floats, degrees: int, pairs: Pairs, level: float) -> Floats:
        """p values for all pairs of a table together, (P,); arguments as for `p_values`.

        Given the variance of its differences, a row differs by chance from one of the m − 1 rows that are equal to it
        with a probability of at most (m − 1)·P(one) and at most 1; the probabilities of all rows add up. The bound is
        never above Bonferroni's, and far below where a row may have a large variance, which concerns its pairs all at
        once. As long as no true hypothesis is rejected, rows that are equal are not rejected among themselves, which
        bounds m from the second step on (Shaffer 1986).
        """
        tails = self._tails(mean, of_examples, degrees)
        equal_rows = self.num_rows
        adjusted: Floats = np.ones(len(mean))
        rejected = np.zeros(len(mean), np.bool_)
        while True:
            of_rows = (self.weights * np.minimum(1.0, (equal_rows - 1) * tails)).sum(axis=1)
            of_step = np.maximum(adjusted[rejected].max(initial=0.0), np.minimum(1.0, self.num_rows * of_rows))
            adjusted = np.where(rejected, adjusted, of_step)
            rejected = adjusted < level
            if len(mean) < self.num_rows * (self.num_rows - 1) // 2:  # not all pairs: no bound is known
                return adjusted
            fewer = _bound_number_of_equal_rows(rejected, pairs, self.num_rows)
            if fewer >= equal_rows or rejected.all():
                return adjusted
            equal_rows = fewer

    def half_widths(self, level: float, of_examples: Floats, degrees: int) -> Floats:
        """Half the width of the interval of each mean difference that excludes a probability of 1 − `level`, (P,)."""
        low: Floats = np.zeros(len(of_examples))
        high: Floats = 40 * np.sqrt(self.variances[-1] + of_examples)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            outside = 2 * (self.weights * self._tails(middle, of_examples, degrees)).sum(axis=1)
            low, high = np.where(outside > 1 - level, middle, low), np.where(outside > 1 - level, high, middle)
        return high

    def _tails(self, mean: Floats, of_examples: Floats, degrees: int) -> Floats:
        """Probability, given each variance, that a difference above |`mean`| arises by chance, (P, G).

        Only the variance of the examples is estimated, so it alone has finite degrees of freedom (Satterthwaite 1946).
        """
        variances = self.variances + of_examples[:, None]
        ratios = variances / np.maximum(of_examples[:, None], variances * 1e-6)
        return _upper_tail(np.abs(mean)[:, None] / np.sqrt(variances), degrees * ratios * ratios)


def estimate_seed_variances(
    variances: Floats, degrees: int | NDArray[np.int64], pairs: Pairs, num_rows: int
) -> SeedVariances:
    """Estimate the distribution of the variance of each pair.

    Args:
        variances: Estimated variance of the mean difference of each pair from seeds, (P,); not all of them 0.
        degrees: Degrees of freedom of all of them, or of each, (P,).
        pairs: First and second row of each pair, (P,) each: all pairs of the rows or a part of them.
        num_rows: Number of rows.
    """
    floor = _SMALLEST_SHARE * float(variances[variances > 0].min())
    logs = np.log(np.maximum(variances, floor))
    step = min(_LOG_STEP, np.sqrt(0.5 / np.max(degrees)))  # half the standard deviation of a log variance
    size = 1 + int(np.ceil((logs.max() - logs.min() + _BELOW + _ABOVE) / step))
    grid = np.linspace(logs.min() - _BELOW, logs.max() + _ABOVE, size)
    halves = np.reshape(degrees, (-1, 1)) / 2
    ratios = halves * np.exp(logs[:, None] - grid)
    log_likelihood = halves * np.log(ratios) - ratios
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    base = np.full(size, _BASE_ROWS / size)
    share = (num_rows - 1) / len(variances)  # pairs of R rows count as R − 1, as many as are independent
    prior: Floats = base
    for _ in range(_EM_STEPS):
        prior = base + share * _normalize(likelihood * prior).sum(axis=0)
    members = _normalize(likelihood * prior)
    of_row = np.zeros((num_rows, size))
    first, second = pairs
    np.add.at(of_row, first, members)
    np.add.at(of_row, second, members)
    others = np.maximum(members.sum(axis=0) - of_row[first] - of_row[second] + members, 0.0)
    return SeedVariances(np.exp(grid), _normalize(likelihood * (base + share * others)), num_rows)


def _normalize(weights: Floats) -> Floats:
    normalized: Floats = weights / weights.sum(axis=1, keepdims=True)
    return normalized


def _bound_number_of_equal_rows(rejected: NDArray[np.bool_], pairs: Pairs, num_rows: int) -> int:
    """Upper bound of the size of a set of rows of which no pair is rejected."""
    first, second = (rows[~rejected] for rows in pairs)
    neighbours = np.bincount(first, minlength=num_rows)  # of every set, one row has all others behind it
    return 1 + int(neighbours.max(initial=0)) if len(second) else 1


def _upper_tail(z: Floats, degrees: Floats) -> Floats:
    """P(T > z) of Student's t for z ≥ 0."""
    if degrees.min(initial=np.inf) >= _EXACT_DEGREES:
        tail: Floats = special.ndtr(-z * (1 - 1 / (4 * degrees)) / np.sqrt(1 + z * z / (2 * degrees)))
    else:
        tail = special.stdtr(degrees, -z)
    return tail
