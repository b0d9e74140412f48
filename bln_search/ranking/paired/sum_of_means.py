"""Test of a sum of means over several sets of examples: the mean over validation conditions, a difference between two.

Each set i has values x_isn of seed s and example n, modelled as in `crossed_anova`; the sum of the means of all sets is
compared with 0. Two cases:

- *Clusters.* If all sets have the same number of examples, examples of equal index are added before the test, because
  they may be the same images under several corruptions. The variance then contains every covariance between sets. If
  examples of equal index are independent, the estimate is as unbiased, and has fewer degrees of freedom than it could
  have: the test is slightly conservative.
- *Strata.* Otherwise examples of different sets are assumed to be independent, and the variance of the sum is the sum
  of the variances. Each keeps the quantile of its own degrees of freedom (Banerjee 1960), which is conservative. Sets
  of different sizes that share images are dependent, and their test is not valid.

Seeds are the same in all sets, so their variance is that of the sum of the means of each seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bln_search.ranking.paired.crossed_anova import ContrastEstimates, intervals_and_p_values_of_means
from bln_search.ranking.paired.table import Floats


def is_clustered_by_example_index(sizes: Sequence[int]) -> bool:
    """Whether sets with these numbers of examples are analyzed as clusters of examples of equal index."""
    return len(set(sizes)) == 1


def compare_sums_of_means_with_zero(sets: Sequence[Floats]) -> ContrastEstimates:
    """Compare sums of means with 0.

    Args:
        sets: Values of each set of examples, (S seeds, P contrasts, N_i examples); at least two examples each.

    Returns:
        Sum of the means over all sets, half-width of its 95 % interval, and two-sided p value; (P,) each.
    """
    strata = [np.asarray(values, np.float64) for values in sets]
    if is_clustered_by_example_index([values.shape[2] for values in strata]):
        strata = [np.sum(strata, axis=0)]
    seeds = strata[0].shape[0]
    of_seed = np.sum([values.mean(axis=2) for values in strata], axis=0)
    mean: Floats = of_seed.mean(axis=0)
    parts = [] if seeds == 1 else [(of_seed.var(axis=0, ddof=1) / seeds, seeds - 1)]
    parts += [(example_variance_component_of_mean(values), values.shape[2] - 1) for values in strata]
    return intervals_and_p_values_of_means(mean, parts, 1)


def example_variance_component_of_mean(values: Floats) -> Floats:
    """Variance that examples add to the mean of values (S, P, N): max(MS_example − MS_residual, 0)/(S·N); (P,).

    With one seed there is no residual, and it is the variance of the mean over examples.
    """
    seeds, _, examples = values.shape
    centred = values - values.mean(axis=2, keepdims=True)
    of_example = centred.mean(axis=0)
    ms_example: Floats = seeds * (of_example**2).sum(axis=1) / (examples - 1)
    if seeds == 1:
        of_mean: Floats = ms_example / examples
        return of_mean
    ms_residual = ((centred - of_example) ** 2).sum(axis=(0, 2)) / ((seeds - 1) * (examples - 1))
    variance: Floats = np.maximum(ms_example - ms_residual, 0.0) / (seeds * examples)
    return variance
