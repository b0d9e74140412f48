"""Main effects and interactions of the switches in a full factorial design, with confidence intervals over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.method import Statistic, StatisticSource
from bln_search.ranking.statistics.intervals import ConfidenceInterval, mean_with_t_interval

BySeed = Mapping[int, float]
"""Mean loss (nats) or accuracy by seed."""

_SIGN = {StatisticSource.POPULATION: 1, StatisticSource.MINI_BATCH: -1}


@dataclass(frozen=True)
class FactorialEffect:
    """Main effect or interaction of switches on a metric.

    The main effect of a switch is the mean metric with the switch at T minus that with the switch at F. The interaction
    of two switches is half the difference between the effects of one under T and under F of the other, that of three
    half the difference between two interactions of two, and so on (Box, Hunter & Hunter 2005, chapter 5). The mean of a
    configuration is the overall mean plus half of every effect, each with a negative sign where an odd number of its
    switches is at F.

    Attributes:
        switches: The interacting switches; one for a main effect.
        size: Effect, with its confidence interval over seeds.
    """

    switches: tuple[Statistic, ...]
    size: ConfidenceInterval

    @property
    def name(self) -> str:
        """Switches joined by a multiplication sign."""
        return " × ".join(self.switches)


def compute_factorial_effects(
    values: Mapping[InferenceConfiguration, BySeed], order: int = 2
) -> list[FactorialEffect] | None:
    """Effects of the switches of one method under one evaluation setting.

    Args:
        values: Metric by configuration and seed. Configurations with memory or blends, and seeds that lack a
            configuration, are omitted.
        order: Maximum number of interacting switches; four switches have 4, 6, 4 and 1 effects of orders 1 to 4.

    Returns:
        None unless every configuration of the method has a value.
    """
    binary = {
        configuration: by_seed
        for configuration, by_seed in values.items()
        if configuration.uses_only_population_and_mini_batch
    }
    switches = tuple(
        statistic
        for statistic in Statistic
        if any(configuration.source_of(statistic) in _SIGN for configuration in binary)
    )
    if not switches or len(binary) != 2 ** len(switches):
        return None
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in binary.values())))
    if not seeds:
        return None
    subsets = [subset for count in range(1, order + 1) for subset in combinations(switches, count)]
    return [
        FactorialEffect(subset, mean_with_t_interval([_factor_contrast(binary, subset, seed) for seed in seeds]))
        for subset in subsets
    ]


def _factor_contrast(
    values: Mapping[InferenceConfiguration, BySeed], switches: tuple[Statistic, ...], seed: int
) -> float:
    sides: dict[int, list[float]] = {1: [], -1: []}
    for configuration, by_seed in values.items():
        sign = 1
        for statistic in switches:
            sign *= _SIGN[configuration.source_of(statistic)]
        sides[sign].append(by_seed[seed])
    return statistics.fmean(sides[1]) - statistics.fmean(sides[-1])
