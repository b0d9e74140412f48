"""The result of a per-layer search of one network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from bln_search.api.networks import NetworkFingerprint
from bln_search.api.ranked.charted_table import ChartedTable
from bln_search.api.ranked.result_table import Record
from bln_search.core.blend import PopulationWeight
from bln_search.core.errors import ModelError
from bln_search.core.layer_search_record import LayerSearchRecord
from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.norms.statistics import LayerPopulation, select_layer_population
from bln_search.ranking.per_layer import PerLayerResult
from bln_search.reports.charts.chart import Chart
from bln_search.reports.charts.per_layer import layer_switch_effects_heat_map
from bln_search.reports.per_layer_tables import best_per_layer_configurations_table
from bln_search.reports.sentences.per_layer import per_layer_sentences
from bln_search.reports.tables.fitted_table import FittedTable


@dataclass(frozen=True, repr=False)
class PerLayerConfigurationWithPopulations:
    """A per-layer configuration with the names of the layers and the population values that each layer reads.

    Attributes:
        configuration: The configuration of each layer.
        layers: The names of the layers.
        populations: The population values by layer.
        blends: The weights of the population by layer, for layers with blended statistics.
        measured_with: Fingerprint of the network with which the population values were measured; None if unknown.
    """

    configuration: PerLayerConfiguration
    layers: tuple[str, ...]
    populations: Mapping[str, LayerPopulation]
    blends: Mapping[str, PopulationWeight] = field(default_factory=dict)
    measured_with: NetworkFingerprint | None = None

    def __str__(self) -> str:
        return str(self.configuration)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


@dataclass(frozen=True, repr=False)
class RankedLayers(ChartedTable):
    """The result of `search_layers`; printing it prints the best rows and their confirmation, a notebook shows them.

    Attributes:
        result: The rows and what is confirmed.
        record: Every evaluated configuration.
        populations: The population values of each layer, by estimate.
        blends: The weight of the population by layer, for layers that keep blended statistics.
        measured_with: Fingerprint of the network with which the population values were measured; None if unknown.
    """

    result: PerLayerResult
    record: LayerSearchRecord
    populations: Mapping[str, Mapping[str, LayerPopulation]]
    blends: Mapping[str, PopulationWeight] = field(default_factory=dict)
    measured_with: NetworkFingerprint | None = None

    @property
    def has_accuracy(self) -> bool:
        """Whether the score has correctness, so that rows have an accuracy. Without it, it is None."""
        return self.result.has_accuracy

    @property
    def unit(self) -> str:
        """Unit of the losses; empty for losses without a unit."""
        return self.result.loss.unit

    @property
    def best(self) -> PerLayerConfigurationWithPopulations:
        """The best configuration on all validation examples."""
        return self.with_populations(PerLayerConfiguration.parse(self.result.rows[0].configuration))

    @property
    def best_batch_independent(self) -> PerLayerConfigurationWithPopulations | None:
        """The evaluated configuration of lowest loss that is independent of the mini-batch; None if there is none."""
        digits = _find_best_independent_digits(self.record)
        if digits is None:
            return None
        return self.with_populations(self.record.space.configuration_of_choice_digits(digits))

    def with_populations(self, configuration: PerLayerConfiguration) -> PerLayerConfigurationWithPopulations:
        """A configuration with the population values it reads. Raises ValueError if the search space lacks it."""
        self.record.space.choice_digits_of_configuration(configuration)
        names = self.record.space.layers
        values = {
            name: select_layer_population(
                layer_configuration,
                self.result.estimate if layer_configuration.uses_population else None,
                self.populations.get(name, {}),
            )
            for name, layer_configuration in zip(names, configuration.configurations, strict=True)
        }
        read = {name: population for name, population in values.items() if population is not None}
        return PerLayerConfigurationWithPopulations(configuration, names, read, self.blends, self.measured_with)

    def __repr__(self) -> str:
        rows, size = self.result.rows, self.record.space.num_configurations
        best = f"best {rows[0].configuration} {rows[0].loss:.4f}" if rows else "none with a finite loss"
        return f"<{type(self).__name__}: {self.result.search} search of {size:,} configurations, {best}>"

    def to_records(self) -> list[Record]:
        """The best configurations on all validation examples, one dictionary for each."""
        rows = enumerate(self.result.rows, start=1)
        return [
            {"rank": rank, "configuration": row.configuration, "loss": row.loss, "accuracy": row.accuracy}
            for rank, row in rows
        ]

    def plot(self) -> Any:
        """The effect of each switch of each layer on the loss, as a `plotly.graph_objects.Figure`.

        Raises:
            ModelError: No layer has a statistic that can be switched.
        """
        return super().plot()

    def _make_chart(self) -> Chart:
        chart = layer_switch_effects_heat_map(self.result)
        if chart is None:
            raise ModelError("a chart needs a layer with a statistic from the population or from the mini-batch")
        return chart

    def _table_with_sentences(self) -> tuple[FittedTable, list[str]]:
        return best_per_layer_configurations_table(self.result), per_layer_sentences(self.result)


def _find_best_independent_digits(record: LayerSearchRecord) -> tuple[int, ...] | None:
    """Digits of the configuration of lowest finite loss in which no layer depends on the mini-batch."""
    options = [
        np.array([all(configuration.is_deterministic for configuration in option) for option in choice.options])
        for choice in record.space.choices
    ]
    digits = record.sums.digits
    if digits is None:  # all configurations, the last choice varies fastest
        is_independent = reduce(lambda mask, option: np.logical_and.outer(mask, option).ravel(), options)
    else:
        is_independent = np.all([option[column] for option, column in zip(options, digits.T, strict=True)], axis=0)
    losses = np.where(is_independent, record.sums.mean_loss_per_configuration, np.inf)
    best = int(losses.argmin())
    if not np.isfinite(losses[best]):
        return None
    return record.space.choice_digits_at_index(best) if digits is None else tuple(int(digit) for digit in digits[best])
