"""What each switch does: main effects and two-way interactions of a full factorial, with intervals over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from bln_search.core.configuration import InferenceConfiguration, Source, Statistic
from bln_search.ranking.groups import Losses
from bln_search.ranking.interval import Interval, interval_of

_SIGN = {Source.POPULATION: 1, Source.MINI_BATCH: -1}


@dataclass(frozen=True)
class Effect:
    """Mean loss (nats) with the switch at T less that at F.

    Of two switches: half the difference of one's effects under T and F of the other (Box, Hunter & Hunter 2005,
    chapter 5).
    """

    switches: tuple[Statistic, ...]
    loss: Interval

    @property
    def name(self) -> str:
        """Switches as tables name them."""
        return " × ".join(self.switches)


def effects(losses: Mapping[InferenceConfiguration, Losses]) -> list[Effect] | None:
    """Effects of the switches of one method under one condition; None unless every configuration has a loss.

    Configurations that read the memory are left out. Seeds that lack a configuration are left out.
    """
    binary = {one: values for one, values in losses.items() if not one.uses_memory}
    switches = tuple(statistic for statistic in Statistic if any(one.source(statistic) in _SIGN for one in binary))
    if not switches or len(binary) != 2 ** len(switches):
        return None
    seeds = sorted(set.intersection(*(set(values) for values in binary.values())))
    if not seeds:
        return None
    wanted = [(one,) for one in switches] + list(combinations(switches, 2))
    return [Effect(one, interval_of([_contrast(binary, one, seed) for seed in seeds])) for one in wanted]


def _contrast(losses: Mapping[InferenceConfiguration, Losses], switches: tuple[Statistic, ...], seed: int) -> float:
    sides: dict[int, list[float]] = {1: [], -1: []}
    for configuration, values in losses.items():
        sign = 1
        for statistic in switches:
            sign *= _SIGN[configuration.source(statistic)]
        sides[sign].append(values[seed])
    return statistics.fmean(sides[1]) - statistics.fmean(sides[-1])
