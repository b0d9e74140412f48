"""Outcome tables drawn from known distributions."""

from __future__ import annotations

import numpy as np
from scipy import stats

from bln_search.core.configuration import all_configurations
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import Method
from bln_search.core.records import RowKey
from bln_search.ranking.paired import OutcomeTable
from bln_search.ranking.paired.crossed_anova import ContrastEstimates, contrast_variances_of_pairs

ROWS = [
    RowKey("bln", "", configuration, PopulationEstimate.FROZEN, 25) for configuration in all_configurations(Method.BLN)
]


def draw(
    rng, *, seeds=5, rows=2, examples=60, of_seed=0.0, of_example=0.0, noise=1.0, skewed=False, difference=0.0
) -> OutcomeTable:
    """Losses = what an example costs all rows + effect of seed and row + of row and example + noise; (S, K, N).

    of_seed, of_example, noise: standard deviations. skewed: the last two of every other row are gamma of shape 1/2, so
    that differences of two rows are skewed, too. difference: of neighbouring rows.
    """

    def chance(*shape):
        values = rng.normal(size=shape)
        if skewed:
            values[..., ::2, :] = (rng.gamma(0.5, size=values[..., ::2, :].shape) - 0.5) / np.sqrt(0.5)
        return values

    losses = (
        rng.normal(size=examples)
        + of_seed * rng.normal(size=(seeds, rows, 1))
        + of_example * chance(1, rows, examples)
        + noise * chance(seeds, rows, examples)
        + difference * np.arange(rows)[:, None]
    )
    return OutcomeTable(losses.astype(np.float32), losses < 0)


def band(share: float, repetitions: int, level: float = 0.999) -> tuple[float, float]:
    """Between what the share observed in so many repetitions lies with this probability, if it is truly `share`.

    99.9 %: the three dozen bands of a run hold together with more than 96 %, whatever the draws are.
    """
    tail = (1 - level) / 2
    low, high = stats.binom.ppf([tail, 1 - tail], repetitions, share) / repetitions
    return float(low), float(high)


def compare_all_pairs(table: OutcomeTable, metric: str = "loss") -> ContrastEstimates:
    """Differences first − second of all pairs of rows, each tested by itself and corrected by Holm's method."""
    return contrast_variances_of_pairs(table.metric_values(metric), metric, table.row_pairs).test()
