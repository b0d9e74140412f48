"""Test of a sum of means over several sets of examples: the mean over validation conditions, a difference between two.

Each set i has values x_isn of seed s and example n, modelled as in `crossed_anova`; the sum of the means of all sets is
compared with 0. Three cases:

- *Clusters.* If all sets have the same number of examples, examples of equal index are added before the test, because
  they may be the same images under several corruptions. The variance then contains every covariance between sets. If
  examples of equal index are independent, the estimate is as unbiased, and has fewer degrees of freedom than it could
  have: the test is slightly conservative.
- *Unknown.* If the targets at equal index differ, sets may have the same images in other orders, or other images. The
  standard errors of the means are added, which bounds the standard error of their sum under any dependence.
- *Strata.* If the sizes differ, examples of different sets are assumed to be independent, and the variance of the sum
  is the sum of the variances. Each keeps the quantile of its own degrees of freedom (Banerjee 1960), which is
  conservative. Sets of different sizes that share images are dependent, and their test is not valid.

Seeds are the same in all sets, so their variance is that of the sum of the means of each seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from bln_search.ranking.paired.crossed_anova import ContrastEstimates, ContrastVariances
from bln_search.ranking.paired.table import Floats


class ExampleRelation(Enum):
    """How the examples of several sets depend on each other."""

    CLUSTERS = "examples of equal index may be the same"
    UNKNOWN = "any examples may be the same"
    STRATA = "all examples are independent"


TargetOrder = NDArray[np.uint64]
"""Fingerprints of the targets of examples in their order, (n,)."""


def relate_examples(sizes: Sequence[int], targets: Sequence[TargetOrder | None] = ()) -> ExampleRelation:
    """Return how the examples of several sets depend on each other.

    Args:
        sizes: Numbers of examples.
        targets: Targets of each set; None or empty where they are unknown, and the order is taken to be the same.
    """
    if len(set(sizes)) != 1:
        return ExampleRelation.STRATA
    known = [order for order in targets if order is not None]
    is_same_order = len(known) < len(sizes) or all(np.array_equal(order, known[0]) for order in known)
    return ExampleRelation.CLUSTERS if is_same_order else ExampleRelation.UNKNOWN


def compare_sums_of_means_with_zero(
    sets: Sequence[Floats], relation: ExampleRelation | None = None
) -> ContrastEstimates:
    """Compare sums of means with 0; arguments as for `sums_of_means`, p values corrected by Holm's method."""
    return sums_of_means(sets, relation).test()


def sums_of_means(sets: Sequence[Floats], relation: ExampleRelation | None = None) -> ContrastVariances:
    """Sums of means over all sets, with the components of their variances.

    Args:
        sets: Values of each set of examples, (S seeds, P contrasts, N_i examples); at least two examples each.
        relation: How the examples of the sets depend on each other; None to decide by their numbers.
    """
    strata = [np.asarray(values, np.float64) for values in sets]
    relation = relation or relate_examples([values.shape[2] for values in strata])
    if relation is ExampleRelation.CLUSTERS:
        strata = [np.sum(strata, axis=0)]
    seeds = strata[0].shape[0]
    of_seed = np.sum([values.mean(axis=2) for values in strata], axis=0)
    mean: Floats = of_seed.mean(axis=0)
    of_seeds = np.zeros_like(mean) if seeds == 1 else of_seed.var(axis=0, ddof=1) / seeds
    of_examples = [(example_variance_component_of_mean(values), values.shape[2] - 1) for values in strata]
    if relation is ExampleRelation.UNKNOWN:
        bound: Floats = np.sum([np.sqrt(variance) for variance, _ in of_examples], axis=0) ** 2
        of_examples = [(bound, min(freedom for _, freedom in of_examples))]
    return ContrastVariances(seeds, mean, of_seeds, of_examples)


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
