"""What each switch does: main effects and interactions of a full factorial, with intervals over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from bln_search.core.configuration import InferenceConfiguration, Source, Statistic
from bln_search.ranking.statistics.intervals import Interval, interval_of

BySeed = Mapping[int, float]
"""Mean loss (nats) or accuracy by seed."""

_SIGN = {Source.POPULATION: 1, Source.MINI_BATCH: -1}


@dataclass(frozen=True)
class Effect:
    """The metric with the switch at T less that at F.

    Of two switches: half the difference of one's effects under T and F of the other; of three half the difference of
    the effects of two, and so on (Box, Hunter & Hunter 2005, chapter 5). A configuration's mean is the mean of all plus
    half of every effect, taken away where an odd number of its switches is at F.
    """

    switches: tuple[Statistic, ...]
    size: Interval

    @property
    def name(self) -> str:
        """Switches as tables name them."""
        return " × ".join(self.switches)

    @property
    def loss(self) -> Interval:
        """Its size, where losses were given."""
        return self.size


def effects(values: Mapping[InferenceConfiguration, BySeed], order: int = 2) -> list[Effect] | None:
    """Effects on a metric of the switches of one method under one condition; None unless every configuration has it.

    order: of up to so many switches together; four switches have 4, 6, 4 and 1. Configurations that read the memory are
    left out. Seeds that lack a configuration are left out.
    """
    binary = {one: by_seed for one, by_seed in values.items() if not one.uses_memory}
    switches = tuple(statistic for statistic in Statistic if any(one.source(statistic) in _SIGN for one in binary))
    if not switches or len(binary) != 2 ** len(switches):
        return None
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in binary.values())))
    if not seeds:
        return None
    wanted = [together for count in range(1, order + 1) for together in combinations(switches, count)]
    return [Effect(one, interval_of([_contrast(binary, one, seed) for seed in seeds])) for one in wanted]


def _contrast(values: Mapping[InferenceConfiguration, BySeed], switches: tuple[Statistic, ...], seed: int) -> float:
    sides: dict[int, list[float]] = {1: [], -1: []}
    for configuration, by_seed in values.items():
        sign = 1
        for statistic in switches:
            sign *= _SIGN[configuration.source(statistic)]
        sides[sign].append(by_seed[seed])
    return statistics.fmean(sides[1]) - statistics.fmean(sides[-1])
