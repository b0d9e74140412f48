"""Number of seeds that would separate two rows, from the variances of their observed difference.

The test of two rows (`crossed_anova`) rejects where D² > t²(S−1)·s²/S + t²(N−1)·v. D is their mean difference, s² the
variance of the differences of single seeds, and v the variance that examples add to D, which more seeds do not reduce.
Where other pairs moderate s² (`seed_variances`), it is taken as known, with the quantile of a normal distribution.
For normal seed effects D has the variance s²/S + v, and (S−1)·s² is chi-squared. The power is the expectation of the
probability of rejection over that distribution. With v = 0 it is the power of the paired t test (noncentral t).

The observed difference and variances are used as the true ones, so the number is an estimate.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from bln_search.ranking.comparison import MAX_REQUIRED_SEEDS, POWER, RequiredSeeds
from bln_search.ranking.paired.sum_of_means import example_variance_component_of_mean
from bln_search.ranking.paired.table import Floats, OutcomeTable

_NODES = 2_000
"""Number of quantiles of the chi-squared distribution over which the power is averaged."""


def estimate_required_seeds(
    table: OutcomeTable, level: float, moderated_of_seeds: float | None = None
) -> RequiredSeeds | None:
    """Number of seeds with which the first two rows would differ significantly with a probability of 80 %.

    Args:
        table: Outcomes of the rows; the first two are tested on `loss`.
        level: Two-sided level of the test.
        moderated_of_seeds: Variance that seeds add to their mean difference, moderated by other pairs; None for theirs.

    Returns:
        None for one seed, one row, or rows that differ by nothing.
    """
    if table.num_seeds < 2 or table.num_rows < 2:
        return None
    differences = table.losses[:, 0].astype(np.float64) - table.losses[:, 1]
    mean, of_seeds = float(differences.mean()), float(differences.mean(axis=1).var(ddof=1))
    of_examples = float(example_variance_component_of_mean(differences[:, None])[0])
    is_moderated = moderated_of_seeds is not None
    if moderated_of_seeds is not None:
        of_seeds = moderated_of_seeds * table.num_seeds
    if mean == 0 or of_seeds + of_examples == 0:
        return None
    if _max_power_over_seeds(mean, of_examples, level, table.num_examples) < POWER:
        return RequiredSeeds(seeds=None, level=level, limited_by_examples=True)
    low, high = 1, MAX_REQUIRED_SEEDS + 1  # too few seeds, and enough or too many to name
    while high - low > 1:
        middle = (low + high) // 2
        power = crossed_test_power(
            mean, of_seeds, of_examples, level, middle, table.num_examples, is_moderated=is_moderated
        )
        low, high = (low, middle) if power >= POWER else (middle, high)
    return RequiredSeeds(seeds=None if high > MAX_REQUIRED_SEEDS else high, level=level)


def crossed_test_power(
    mean: float,
    of_seeds: float,
    of_examples: float,
    level: float,
    seeds: int,
    examples: int,
    *,
    is_moderated: bool = False,
) -> float:
    """Probability that the crossed test rejects equal means.

    Args:
        mean: True mean difference.
        of_seeds: Variance of the difference of a single seed.
        of_examples: Variance that examples add to the mean difference.
        level: Two-sided level of the test.
        seeds: Number of seeds S, at least two.
        examples: Number of examples N.
        is_moderated: Whether the variance of a seed is known.
    """
    upper_tails = (np.arange(_NODES) + 0.5) / _NODES
    scaled = special.chdtri(seeds - 1, upper_tails) / (seeds - 1)
    reach = (
        np.full(_NODES, special.ndtri(level / 2) ** 2 * of_seeds / seeds)
        if is_moderated
        else _t_quantile(level, seeds - 1) ** 2 * of_seeds * scaled / seeds
    )
    critical = np.sqrt(reach + _t_quantile(level, examples - 1) ** 2 * of_examples)
    deviation = np.sqrt(of_seeds / seeds + of_examples)
    return float(_normal_probability_outside(critical, mean, deviation).mean())


def _max_power_over_seeds(mean: float, of_examples: float, level: float, examples: int) -> float:
    """Power for any number of seeds at most."""
    if of_examples == 0:
        return 1.0
    deviation = np.sqrt(of_examples)
    critical = np.asarray([_t_quantile(level, examples - 1) * deviation])
    return float(_normal_probability_outside(critical, mean, deviation)[0])


def _normal_probability_outside(critical: Floats, mean: float, deviation: float) -> Floats:
    """Probability that a normal value lies outside ± `critical`."""
    outside: Floats = special.ndtr((mean - critical) / deviation) + special.ndtr((-mean - critical) / deviation)
    return outside


def _t_quantile(level: float, degrees: int) -> float:
    return float(-special.stdtrit(degrees, level / 2))
