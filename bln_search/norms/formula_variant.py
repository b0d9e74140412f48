"""The variants of the normalization formulas: BLN as in its paper and as in its authors' reference code."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bln_search.core.enums import Semantics

WEIGHT_EPSILON = 1e-4
"""ε in the weights w_B and w_F of BLN's Eq. 16, in both variants."""


@dataclass(frozen=True)
class FormulaVariant:
    """Details of the formulas for the statistics of a layer.

    Attributes:
        epsilon: ε under the root of every deviation.
        pools_positions: mini-batch statistics average over samples and positions (one value for each feature);
            otherwise over samples only.
        around_selected_mean: a mini-batch deviation is computed around the configured mean, mini-batch or population
            (Eq. 19); otherwise always around the mean of the mini-batch.
        corrects_variance: the factor m/(m-1) multiplies E[σ²] (Eq. 5); otherwise E[σ] (Eq. 19).
        counts_positions: m in that factor counts all averaged values, positions included; otherwise samples only.
        averages_deviation: the population deviation is E[σ] without a factor (BRN).
        unbiased: the variance of the mini-batch is Σ(x − μ)²/(n − 1), n the number of values (BN); otherwise it is
            divided by n. The variance of one value is zero in both cases.
    """

    epsilon: float
    pools_positions: bool
    around_selected_mean: bool
    corrects_variance: bool
    counts_positions: bool = False
    averages_deviation: bool = False
    unbiased: bool = False

    def compute_batch_deviation(self, variance: Tensor, count: int) -> Tensor:
        """Return the deviation of a mini-batch, ε under the root.

        Args:
            variance: Σ(x − E)²/n.
            count: n, the number of values.
        """
        if self.unbiased:
            variance = variance * (count / max(count - 1, 1))
        return torch.sqrt(variance + self.epsilon)


BLN_VARIANTS: dict[Semantics, FormulaVariant] = {
    Semantics.PAPER: FormulaVariant(
        epsilon=1e-4, pools_positions=True, around_selected_mean=True, corrects_variance=False
    ),
    Semantics.REFERENCE: FormulaVariant(
        epsilon=1e-3, pools_positions=False, around_selected_mean=False, corrects_variance=True
    ),
}

BN_VARIANTS: dict[Semantics, FormulaVariant] = {
    semantics: FormulaVariant(
        epsilon=BLN_VARIANTS[semantics].epsilon,
        pools_positions=True,
        around_selected_mean=False,
        corrects_variance=True,
        counts_positions=True,
    )
    for semantics in Semantics
}

ANALYTIC_EPSILON = 1e-12
"""ε of layers whose statistics come from weights: variances of weights are not estimated from few values."""

ANALYTIC_VARIANTS: dict[Semantics, FormulaVariant] = {
    semantics: replace(variant, epsilon=ANALYTIC_EPSILON) for semantics, variant in BN_VARIANTS.items()
}
