"""Test of the mean difference of two rows over seeds and examples, both as random effects.

The difference d_sn of seed s and example n is modelled as mean + seed + example + residual. All seeds share the same
examples, so the variance of the mean over both is (MS_seed + MS_example − MS_residual)/(S·N), with the mean squares of
a two-way analysis of variance (Clark 1973, "The language-as-fixed-effect fallacy"). Two variances are estimated, one
from few seeds and one from many examples. Each gets the quantile of its own degrees of freedom (Banerjee 1960): the
interval is mean ± √((t²(S−1)·MS_seed + t²(N−1)·max(MS_example − MS_residual, 0))/(S·N)), and p is the level at which it
just reaches zero. In simulations this keeps the significance level for every mixture of the two variances, in the far
tails as well, where corrections for several pairs operate. Satterthwaite's approximation does not: with three seeds its
rate of false positives there is twenty times the nominal level. A test over the means of the seeds alone ignores that
all seeds share the same examples: where examples differ, half of its results are false positives
(tests/ranking/paired/test_false_alarms.py).

With one example (a score for each seed) only seeds vary: this is Student's paired t test.

From four rows and three seeds on the variance between seeds is moderated by other pairs (`seed_variances`).

Accuracies are counts: seeds that differ by the same number of examples have MS_seed = 0 by chance. As the expected mean
squares satisfy MS_seed ≥ MS_residual, the larger of the two is used for accuracies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bln_search.ranking.paired.seed_variances import Pairs, SeedVariances, estimate_seed_variances
from bln_search.ranking.paired.table import Floats
from bln_search.ranking.statistics.intervals import ALPHA, CONFIDENCE_LEVEL, adjust_p_values_by_holm

_MIN_P = 1e-300
"""Lower limit of p values."""

_BISECTIONS = 40

MIN_MODERATED_ROWS, MIN_MODERATED_SEEDS = 4, 3
"""With three rows a pair has no pair of other rows, from which its variance could be moderated. Variances of two seeds
have one degree of freedom, and do not tell how they are distributed."""

_MAX_DIFFERENCES_IN_MEMORY = 2**17
"""Limit on the number of differences in memory: they fit into the cache of a core."""


@dataclass(frozen=True)
class ContrastEstimates:
    """All contrasts, each (P,).

    Attributes:
        mean: Mean difference (first − second).
        half: Half-width of its 95 % confidence interval; NaN where it is not computed.
        p: Two-sided p value.
        adjusted: p value corrected for all contrasts together.
        variance: Variance of the mean.
        of_seeds: The part of `variance` from seeds.
        beyond_margin: One-sided p value of a true difference of the margin or more in the direction of `mean`.
        opposite_margin: The same in the other direction.
    """

    mean: Floats
    half: Floats
    p: Floats
    adjusted: Floats
    variance: Floats
    of_seeds: Floats
    beyond_margin: Floats
    opposite_margin: Floats

    def take(self, indices: NDArray[np.intp]) -> ContrastEstimates:
        """These contrasts."""
        return ContrastEstimates(*(getattr(self, field.name)[indices] for field in fields(self)))


@dataclass(frozen=True)
class ContrastVariances:
    """Means of contrasts, and the components of their variances.

    Attributes:
        seeds: Number of seeds S.
        mean: Means over seeds and examples, (P,).
        of_seeds: Variance of the mean from seeds, with S − 1 degrees of freedom, (P,); 0 for one seed.
        of_examples: Further variance of the mean from each set of examples, (P,), with its degrees of freedom.
    """

    seeds: int
    mean: Floats
    of_seeds: Floats
    of_examples: Sequence[tuple[Floats, int]]

    @property
    def variance(self) -> Floats:
        """Variance of the mean, (P,)."""
        return self.of_seeds + self._variance_of_examples

    @property
    def _variance_of_examples(self) -> Floats:
        """The part of `variance` from all sets of examples, (P,)."""
        variance: Floats = np.sum([of_examples for of_examples, _ in self.of_examples], axis=0)
        return variance

    def take(self, contrasts: slice) -> ContrastVariances:
        """These contrasts."""
        of_examples = [(variance[contrasts], degrees) for variance, degrees in self.of_examples]
        return ContrastVariances(self.seeds, self.mean[contrasts], self.of_seeds[contrasts], of_examples)

    def test(
        self,
        pairs: Pairs | None = None,
        num_rows: int = 0,
        margin: float = 0.0,
        *,
        sampled_from: int = 0,
        intervals: int | None = None,
    ) -> ContrastEstimates:
        """Test means of 0.

        Args:
            pairs: First and second row of each contrast, if these are pairs of rows: from four rows and three seeds on
                their variances between seeds are moderated.
            num_rows: Number of rows.
            margin: Difference up to which rows are practically equal, at least 0.
            sampled_from: Number of the first contrasts to which the result is restricted, where all further ones are a
                sample of other pairs; 0 for all contrasts.
            intervals: Number of the first contrasts that have intervals, which take long; None for all.
        """
        is_moderated = num_rows >= MIN_MODERATED_ROWS and self.seeds >= MIN_MODERATED_SEEDS and self.of_seeds.any()
        if pairs is None or not is_moderated:
            parts = [*([(self.of_seeds, self.seeds - 1)] if self.seeds > 1 else []), *self.of_examples]
            p = two_sided_p_values(self.mean, parts)
            adjusted = (
                np.minimum(1.0, num_rows * (num_rows - 1) / 2 * p)  # Bonferroni over all pairs
                if sampled_from
                else np.asarray(adjust_p_values_by_holm(p.tolist()))
            )
            return ContrastEstimates(
                self.mean,
                np.sqrt(_squared_half_widths(np.full(self.mean.shape, 1 - CONFIDENCE_LEVEL), parts)),
                p,
                adjusted,
                self.variance,
                self.of_seeds,
                *self._margin_tests(margin, lambda mean: two_sided_p_values(mean, parts)),
            )
        moderated = estimate_seed_variances(self.of_seeds, self.seeds - 1, pairs, num_rows)
        if sampled_from:
            part = slice(sampled_from)
            return self.take(part)._test_moderated(moderated.take(part), pairs, margin, intervals)
        return self._test_moderated(moderated, pairs, margin, intervals)

    def _test_moderated(
        self, moderated: SeedVariances, pairs: Pairs, margin: float, intervals: int | None
    ) -> ContrastEstimates:
        of_examples = self._variance_of_examples
        noise = of_examples, min(degrees for _, degrees in self.of_examples)
        part, half = slice(intervals), np.full(self.mean.shape, np.nan)
        half[part] = moderated.take(part).half_widths(CONFIDENCE_LEVEL, of_examples[part], noise[1])
        return ContrastEstimates(
            self.mean,
            half,
            moderated.p_values(self.mean, *noise),
            moderated.adjusted_p_values(self.mean, *noise, pairs, ALPHA),
            moderated.medians + of_examples,
            moderated.medians,
            *self._margin_tests(margin, lambda mean: moderated.p_values(mean, *noise)),
        )

    def _margin_tests(self, margin: float, two_sided: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """One-sided p values of differences of the margin or more, in the observed and in the other direction."""
        inside, outside = margin - np.abs(self.mean), margin + np.abs(self.mean)
        return np.where(inside > 0, two_sided(inside) / 2, 1.0), np.where(outside > 0, two_sided(outside) / 2, 1.0)


def concatenate_contrasts(parts: Sequence[ContrastVariances]) -> ContrastVariances:
    """The contrasts of one part or more, of the same seeds and examples."""
    degrees = [number for _, number in parts[0].of_examples]
    return ContrastVariances(
        parts[0].seeds,
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.of_seeds for part in parts]),
        [
            (np.concatenate([part.of_examples[index][0] for part in parts]), number)
            for index, number in enumerate(degrees)
        ],
    )


def contrast_variances_of_pairs(values: NDArray[np.float32] | Floats, metric: str, pairs: Pairs) -> ContrastVariances:
    """Variances of the differences of pairs of rows of `loss` or `accuracy`, from (S, K, N).

    With one seed only examples are a random effect: the result applies to that network.
    """
    first, second = pairs
    step = max(1, _MAX_DIFFERENCES_IN_MEMORY // (values.shape[0] * values.shape[2]))
    chunks = [slice(start, start + step) for start in range(0, max(1, len(first)), step)]
    return concatenate_contrasts(
        [_contrast_variances(values[:, first[chunk]], values[:, second[chunk]], metric) for chunk in chunks]
    )


def _contrast_variances(
    first: NDArray[np.float32] | Floats, second: NDArray[np.float32] | Floats, metric: str
) -> ContrastVariances:
    """Variances of the differences of pairs of rows, from (S, P, N)."""
    seeds, _, examples = first.shape
    mean, ss_seed, ss_example, ss_residual = _mean_difference_and_sums_of_squares(first, second)
    values = seeds * examples
    if examples == 1:  # the degrees of freedom of a variance of 0 are arbitrary
        return ContrastVariances(seeds, mean, ss_seed / (seeds - 1) / values, [(np.zeros_like(mean), 1)])
    ms_example = ss_example / (examples - 1)
    if seeds == 1:
        return ContrastVariances(seeds, mean, np.zeros_like(mean), [(ms_example / values, examples - 1)])
    ms_residual = ss_residual / ((seeds - 1) * (examples - 1))
    of_seeds = ss_seed / (seeds - 1)
    if metric == "accuracy":
        of_seeds = np.maximum(of_seeds, ms_residual)
    of_examples = np.maximum(ms_example - ms_residual, 0.0)
    return ContrastVariances(seeds, mean, of_seeds / values, [(of_examples / values, examples - 1)])


def _mean_difference_and_sums_of_squares(
    first: NDArray[np.float32] | Floats, second: NDArray[np.float32] | Floats
) -> Floats:
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
    return np.stack([mean, *sums, np.einsum("spn,spn->p", differences, differences)])


def two_sided_p_values(mean: Floats, parts: Sequence[tuple[Floats, int]]) -> Floats:
    """Two-sided p values of means of 0.

    Args:
        mean: Means, (P,).
        parts: Components of the variance of each mean, (P,), with their degrees of freedom.
    """
    low, high = _log10_p_value_bounds(mean**2, parts)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        too_low = _squared_half_widths(10.0**middle, parts) > mean**2
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    no_variance = sum(part for part, _ in parts) == 0
    p: Floats = np.where(no_variance, np.where(mean == 0, 1.0, 0.0), np.where(mean == 0, 1.0, 10.0**high))
    return p


def _log10_p_value_bounds(reached: Floats, parts: Sequence[tuple[Floats, int]]) -> tuple[Floats, Floats]:
    """Bounds of log10(p): the whole variance with the largest number of degrees of freedom, and with the smallest."""
    degrees = [number for _, number in parts]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.sqrt(reached / sum(part for part, _ in parts))
    ends = (2 * special.stdtr(number, -t) for number in (max(degrees), min(degrees)))
    low, high = (np.log10(np.maximum(np.nan_to_num(end, nan=1.0), _MIN_P)) for end in ends)
    return low, high


def _squared_half_widths(p: Floats, parts: Sequence[tuple[Floats, int]]) -> Floats:
    """Square of the half-width of the interval at these levels."""
    total = np.zeros(p.shape)
    for part, degrees in parts:
        with np.errstate(over="ignore", invalid="ignore"):
            total += np.where(part > 0, special.stdtrit(degrees, p / 2) ** 2 * part, 0.0)
    return total
