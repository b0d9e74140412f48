"""The population values that a row of a ranked table reads."""

from __future__ import annotations

from collections.abc import Mapping

from bln_search.api.ranked.row import LayerPopulationsByName
from bln_search.core.blend import parse_estimate_label
from bln_search.norms.network.layers import is_population_of_data
from bln_search.norms.statistics import LayerPopulation, configuration_of_layer_in_row, select_layer_population
from bln_search.ranking.leaderboard import LeaderboardRow


def row_populations_and_layers_without_one(
    row: LeaderboardRow, populations: Mapping[str, LayerPopulationsByName]
) -> tuple[dict[str, LayerPopulation], frozenset[str]]:
    """Return the values by the name of the layer, and the layers without a population of the row's estimate.

    Args:
        row: The row.
        populations: The population values of each layer, by estimate.
    """
    names = dict.fromkeys(name for layers in populations.values() for name in layers)
    read: dict[str, LayerPopulation] = {}
    without_estimate = set()
    name_of_population = None if row.estimate is None else parse_estimate_label(row.estimate)[0]
    for name in names:
        by_estimate = {estimate: layers[name] for estimate, layers in populations.items() if name in layers}
        configuration = configuration_of_layer_in_row(row.configuration, row.estimate, by_estimate)
        population = select_layer_population(configuration, row.estimate, by_estimate)
        if population is not None:
            read[name] = population
        if configuration != row.configuration and not is_population_of_data(name_of_population):
            without_estimate.add(name)
    return read, frozenset(without_estimate)
