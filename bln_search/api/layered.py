"""A per-layer configuration, ready to be applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bln_search.core.per_layer import PerLayerConfiguration
from bln_search.norms.statistics import LayerPopulation


@dataclass(frozen=True)
class LayeredConfiguration:
    """A word for each layer, by the layers' names, and the population values that each reads."""

    configuration: PerLayerConfiguration
    layers: tuple[str, ...]
    populations: Mapping[str, LayerPopulation]

    def __str__(self) -> str:
        return str(self.configuration)
