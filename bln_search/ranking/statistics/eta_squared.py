"""How much of what a metric varies each part of a table explains: switches, population estimate, batch size, seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bln_search.core.configuration import InferenceConfiguration, Source, Statistic
from bln_search.core.enums import PopulationEstimate

Cell = tuple[InferenceConfiguration, PopulationEstimate | None, int, int]
"""Configuration, population estimate (None where it reads none), inference batch size and seed."""

TOGETHER = "switches together"
REST = "rest"


@dataclass(frozen=True)
class Share:
    """Part of the sum of squares around the mean (eta squared): of one factor by itself, or of several together."""

    name: str
    share: float


def shares(values: Mapping[Cell, float]) -> list[Share] | None:
    """Shares of the factors, largest first, then all interactions among switches, then the rest; their sum is 1.

    Needs a balanced design: the configurations are every combination of the sources that their switches have among
    them, and each has one finite value under every estimate, batch size and seed that any has. None where one is
    missing, or where all values are equal. A configuration that reads no population value was measured once and stands
    under every estimate. A factor with one level is left out.
    """
    configurations = {one for one, *_ in values}
    switches = {one: sorted({key.source(one) for key in configurations}) for one in Statistic}
    switches = {one: sources for one, sources in switches.items() if len(sources) > 1}
    if not values or len(configurations) != np.prod([len(sources) for sources in switches.values()]):
        return None
    cells = _cells(values, configurations, switches)
    if cells is None:
        return None
    names = [*switches, "population estimate", "batch size", "seed"]
    centred = cells - cells.mean()
    total = float((centred**2).sum())
    if total == 0:
        return None
    alone = [Share(str(name), _explained(centred, [axis]) / total) for axis, name in enumerate(names)]
    found = sorted((one for one, levels in zip(alone, cells.shape, strict=True) if levels > 1), key=_largest_first)
    if len(switches) > 1:
        every = _explained(centred, range(len(switches))) / total
        found.append(Share(TOGETHER, max(0.0, every - sum(one.share for one in alone[: len(switches)]))))
    return [*found, Share(REST, max(0.0, 1 - sum(one.share for one in found)))]


def _largest_first(one: Share) -> float:
    return -one.share


def _cells(
    values: Mapping[Cell, float],
    configurations: set[InferenceConfiguration],
    switches: Mapping[Statistic, Sequence[Source]],
) -> NDArray[np.float64] | None:
    """An axis for every switch, then estimate, batch size and seed; None where a value is missing."""
    estimates: list[PopulationEstimate | None] = [*sorted({key[1] for key in values if key[1] is not None})] or [None]
    sizes, seeds = sorted({key[2] for key in values}), sorted({key[3] for key in values})
    by_sources = {tuple(one.source(statistic) for statistic in switches): one for one in configurations}
    found = []
    for sources in product(*switches.values()):
        one = by_sources[sources]
        own = estimates if one.uses_population else [None] * len(estimates)
        found += [
            values.get((one, estimate, size, seed), np.nan) for estimate in own for size in sizes for seed in seeds
        ]
    levels = [len(sources) for sources in switches.values()]
    cells = np.array(found, np.float64).reshape([*levels, len(estimates), len(sizes), len(seeds)])
    return cells if np.isfinite(cells).all() else None


def _explained(centred: NDArray[np.float64], axes: Sequence[int]) -> float:
    """Sum of squares between the groups that these axes make."""
    others = tuple(axis for axis in range(centred.ndim) if axis not in axes)
    means = centred.mean(axis=others)
    return float((means**2).sum() * centred.size / means.size)
