"""Variance shares (eta squared) of switches, population estimate, batch size and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import Statistic, StatisticSource
from bln_search.ranking.effect_records import RESIDUAL, SWITCH_INTERACTIONS

Cell = tuple[InferenceConfiguration, str | None, int, int]
"""Configuration, population estimate (None where no population value is read), inference batch size and seed."""


class VarianceShare(NamedTuple):
    """Share of the total sum of squares (eta squared) of one factor, or of several interactions."""

    name: str
    share: float


def variance_shares_of_factors(values: Mapping[Cell, float]) -> list[VarianceShare] | None:
    """Shares of the factors in decreasing order, then of all interactions among switches, then the residual.

    The shares sum to 1. A configuration that reads no population value is evaluated once and counts under every
    estimate. A factor with one level is omitted.

    Args:
        values: One value for each cell of a balanced design: the configurations are all combinations of the sources of
            their switches, each with a finite value under every estimate, batch size and seed.

    Returns:
        None where the design is not balanced, or all values are equal.
    """
    configurations = {configuration for configuration, *_ in values}
    switches = {statistic: sorted({key.source_of(statistic) for key in configurations}) for statistic in Statistic}
    switches = {statistic: sources for statistic, sources in switches.items() if len(sources) > 1}
    if not values or len(configurations) != np.prod([len(sources) for sources in switches.values()]):
        return None
    cells = _make_full_factorial_table(values, configurations, switches)
    if cells is None:
        return None
    names = [*switches, "population estimate", "batch size", "seed"]
    centred = cells - cells.mean()
    total = float((centred**2).sum())
    if total == 0:
        return None
    main = [
        VarianceShare(str(name), _sum_of_squares_between_groups(centred, [axis]) / total)
        for axis, name in enumerate(names)
    ]
    factors = (share for share, levels in zip(main, cells.shape, strict=True) if levels > 1)
    result = sorted(factors, key=lambda share: -share.share)
    if len(switches) > 1:
        all_switches = _sum_of_squares_between_groups(centred, range(len(switches))) / total
        interactions = all_switches - sum(share.share for share in main[: len(switches)])
        result.append(VarianceShare(SWITCH_INTERACTIONS, max(0.0, interactions)))
    return [*result, VarianceShare(RESIDUAL, max(0.0, 1 - sum(share.share for share in result)))]


def _make_full_factorial_table(
    values: Mapping[Cell, float],
    configurations: set[InferenceConfiguration],
    switches: Mapping[Statistic, Sequence[StatisticSource]],
) -> NDArray[np.float64] | None:
    """Values with one axis for each switch, then estimate, batch size and seed; None where a value is missing."""
    estimates: list[str | None] = [*sorted({key[1] for key in values if key[1] is not None})] or [None]
    sizes, seeds = sorted({key[2] for key in values}), sorted({key[3] for key in values})
    by_sources = {tuple(key.source_of(statistic) for statistic in switches): key for key in configurations}
    flat = []
    for sources in product(*switches.values()):
        configuration = by_sources[sources]
        read = estimates if configuration.uses_population else [None] * len(estimates)
        flat += [
            values.get((configuration, estimate, size, seed), np.nan)
            for estimate in read
            for size in sizes
            for seed in seeds
        ]
    levels = [len(sources) for sources in switches.values()]
    cells = np.array(flat, np.float64).reshape([*levels, len(estimates), len(sizes), len(seeds)])
    return cells if np.isfinite(cells).all() else None


def _sum_of_squares_between_groups(centred: NDArray[np.float64], axes: Sequence[int]) -> float:
    """Sum of squares between the groups formed by these axes."""
    others = tuple(axis for axis in range(centred.ndim) if axis not in axes)
    means = centred.mean(axis=others)
    return float((means**2).sum() * centred.size / means.size)
