"""Friedman's test of equal ranks over seeds, and Nemenyi's critical difference of mean ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from bln_search.ranking.paired.table import Floats
from bln_search.ranking.statistics.intervals import ALPHA


@dataclass(frozen=True)
class FriedmanResult:
    """Friedman's statistic and p value, mean rank of every row (K,), and critical difference of two mean ranks."""

    statistic: float
    p: float
    ranks: Floats
    critical_difference: float


def friedman_test(means: Floats) -> FriedmanResult | None:
    """Friedman's test with seeds as blocks.

    The critical difference is q·√(K(K+1)/6S), with q the quantile of the studentized range over √2 (Nemenyi 1963;
    Demšar 2006).

    Args:
        means: Mean losses, (S, K).

    Returns:
        None for fewer than two seeds or three rows, for which the test is not defined.
    """
    seeds, rows = means.shape
    if seeds < 2 or rows < 3:
        return None
    ranks = stats.rankdata(means, axis=1).mean(axis=0)
    if np.all(means == means[:, :1]):
        statistic, p = 0.0, 1.0
    else:
        test = stats.friedmanchisquare(*means.T)
        statistic, p = float(test.statistic), float(test.pvalue)
    return FriedmanResult(
        statistic, p, ranks, float(_nemenyi_quantile(rows) * np.sqrt(rows * (rows + 1) / (6 * seeds)))
    )


@lru_cache(maxsize=64)
def _nemenyi_quantile(rows: int) -> float:
    return float(stats.studentized_range.ppf(1 - ALPHA, rows, np.inf) / np.sqrt(2))
