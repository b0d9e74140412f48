"""The two readings of BLN, point by point (where the paper and its authors' code differ)."""

from __future__ import annotations

from dataclasses import dataclass

from bln_search.core.enums import Semantics

WEIGHT_EPSILON = 1e-4
"""ε in the weights w_B and w_F of BLN's Eq. 16, in both readings."""


@dataclass(frozen=True)
class Reading:
    """How a layer computes its statistics.

    epsilon: ε under the root of every deviation.
    pools_positions: mini-batch statistics over samples and positions, one value a feature; otherwise over samples only.
    around_chosen_mean: a mini-batch deviation is taken around whichever mean was chosen (Eq. 19); otherwise always
        around the mini-batch's own.
    corrects_variance: the factor m/(m-1) multiplies E[σ²] (Eq. 5); otherwise E[σ] (Eq. 19).
    counts_positions: m in that factor counts every value averaged, positions included; otherwise samples only.
    averages_deviation: no factor at all, the population deviation is E[σ] (BRN).
    """

    epsilon: float
    pools_positions: bool
    around_chosen_mean: bool
    corrects_variance: bool
    counts_positions: bool = False
    averages_deviation: bool = False


BLN_READINGS: dict[Semantics, Reading] = {
    Semantics.PAPER: Reading(epsilon=1e-4, pools_positions=True, around_chosen_mean=True, corrects_variance=False),
    Semantics.REFERENCE: Reading(epsilon=1e-3, pools_positions=False, around_chosen_mean=False, corrects_variance=True),
}

BN_READINGS: dict[Semantics, Reading] = {
    semantics: Reading(
        epsilon=BLN_READINGS[semantics].epsilon,
        pools_positions=True,
        around_chosen_mean=False,
        corrects_variance=True,
        counts_positions=True,
    )
    for semantics in Semantics
}
