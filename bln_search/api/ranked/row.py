"""A row of the ranked table of a network, with what is needed to apply it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from bln_search.api.networks import NetworkFingerprint, parameter_fingerprint
from bln_search.core.blend import PopulationWeight, parse_estimate_label
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.configuration_explanation import explain_configuration
from bln_search.core.enums import Split
from bln_search.core.errors import ModelError
from bln_search.norms.network.layers import is_population_of_data
from bln_search.norms.statistics import LayerPopulation, configuration_of_layer_in_row, select_layer_population
from bln_search.ranking.leaderboard import LeaderboardRow
from bln_search.ranking.selection.row_cost import is_deterministic_configuration

LayerPopulationsByName = Mapping[str, LayerPopulation]


@dataclass(frozen=True, repr=False)
class RankedConfiguration:
    """A row of the ranked table with its population values.

    Attributes:
        row: The row.
        populations: The population values that the row reads, by the name of the layer; empty in a row of several
            networks, see `of_network`.
        without_estimate: Layers without a population of this estimate, which use the mini-batch instead.
        per_slot: Each slot of the mini-batch has its own population values.
        metrics: Values of `metrics=` by split and name; empty without metrics and for a row without a value.
        batch_sizes: Inference mini-batch sizes for which the row stands: several if it is the same at all of them.
        networks: The same row of each network, with the population values of that network; empty for one network.
        fingerprints: Of the parameters of each of several networks; empty for one network.
        network: Position of the network whose population values these are; None for one network, and for all.
        measured_with: Fingerprint of the network with which the population values were measured; None for several
            networks, and for tables of files of earlier versions.
    """

    row: LeaderboardRow
    populations: LayerPopulationsByName
    without_estimate: frozenset[str] = frozenset()
    per_slot: bool = False
    metrics: Mapping[Split, Mapping[str, float]] = field(default_factory=dict)
    batch_sizes: tuple[int, ...] = ()
    networks: tuple[RankedConfiguration, ...] = ()
    fingerprints: tuple[str, ...] = ()
    network: int | None = None
    measured_with: NetworkFingerprint | None = None

    @property
    def configuration(self) -> InferenceConfiguration:
        """The source of each statistic."""
        return self.row.configuration

    @property
    def explanation(self) -> str:
        """What the configuration does, in a sentence without the letters of its code."""
        return explain_configuration(self.configuration, self.row.estimate)

    @property
    def blend(self) -> PopulationWeight | None:
        """The weight of the population in blended statistics; None if no statistic is blended."""
        return None if self.row.estimate is None else parse_estimate_label(self.row.estimate)[1]

    @property
    def is_independent(self) -> bool:
        """Whether the output for an example is independent of the rest of the mini-batch and of its position in it."""
        return is_deterministic_configuration(self.configuration, per_slot=self.per_slot)

    def configuration_of_layer(self, name: str) -> InferenceConfiguration:
        """The configuration of one layer."""
        return (
            self.configuration.with_mini_batch_for_population if name in self.without_estimate else self.configuration
        )

    def of_network(self, index: int) -> RankedConfiguration:
        """This row with the population values of one of several networks, by its position in the evaluated list.

        Raises:
            IndexError: There is no such network.
        """
        rows = self.networks or (self,)
        if not -len(rows) <= index < len(rows):
            raise IndexError(f"the table has {len(rows)} networks, numbered from 0: there is no network {index}")
        return rows[index]

    def with_populations_of_network(self, network: nn.Module) -> RankedConfiguration:
        """This row with the population values of `network`, which is recognized by its parameters.

        A row of a single network is returned as it is.

        Raises:
            ModelError: The row is of several networks, and this is none of them; or it has the values of another one.
        """
        if not self.fingerprints:
            return self
        fingerprint = parameter_fingerprint(network)
        position = self.fingerprints.index(fingerprint) if fingerprint in self.fingerprints else None
        if position is None and self.networks:
            position = self._find_original_of_copy(network)
        if self.networks and position is None:
            raise ModelError(
                f"this row is of {len(self.networks)} networks, and the parameters of this network are those of none "
                "of them: each network has its own population values. Choose those of one of them, as in "
                "row.of_network(0) with allow_other_weights=True"
            )
        if self.networks and position is not None:
            return self.networks[position]
        if position not in (None, self.network):
            raise ModelError(
                f"the population values are those of network {self.network}, and this is network {position}: give "
                f"row.of_network({position}), or the row of the table, which has the values of every network"
            )
        return self

    def _find_original_of_copy(self, network: nn.Module) -> int | None:
        """Position of the network of which another one is a copy in another floating-point type; None without one."""
        copied = NetworkFingerprint.of_network(network)
        measured = [row.measured_with for row in self.networks]
        equal = (each is not None and each.describe_difference(copied) is None for each in measured)
        return next((position for position, is_equal in enumerate(equal) if is_equal), None)

    def __str__(self) -> str:
        return f"{self.configuration}" + (f" ({self.row.estimate})" if self.row.estimate else "")

    def __repr__(self) -> str:
        metrics = self.row.metrics.get(Split.VALIDATION)
        rank = self.row.state if self.row.rank is None else f"rank {self.row.rank}"
        loss = "" if metrics is None else f", validation loss {metrics.loss.mean:.4f}"
        values = "".join(f", {name} {value:.4f}" for name, value in self.metrics.get(Split.VALIDATION, {}).items())
        return f"<{type(self).__name__}: {self}, {rank}{loss}{values}>"


def row_populations_and_layers_without_one(
    row: LeaderboardRow, populations: Mapping[str, LayerPopulationsByName]
) -> tuple[dict[str, LayerPopulation], frozenset[str]]:
    """The values that a row reads by the name of the layer, and the layers without a population of its estimate."""
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
