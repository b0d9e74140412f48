"""The population values that a normalization layer has for its configuration."""

from __future__ import annotations

import torch

from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic
from bln_search.norms.normalization_base import NormalizationBase
from bln_search.norms.statistics import LayerPopulation, PopulationPair


def missing_stored_statistics(layer: NormalizationBase) -> list[Statistic]:
    """Return the statistics whose stored value the configuration of `layer` reads and the layer does not have."""
    sources = {statistic: layer.configuration.source_of(statistic) for statistic in layer.method.statistics}
    return [
        statistic
        for statistic, source in sources.items()
        if source.reads_stored_value and not layer.has_configured_value_from(statistic, source)
    ]


def find_stored_population(layer: NormalizationBase) -> LayerPopulation | None:
    """Return the values that `configure` stored in `layer`; None where its configuration reads none.

    A mean that the layer does not have is NaN; the configuration does not read it.
    """
    if not any(layer.configuration.source_of(statistic).reads_stored_value for statistic in layer.method.statistics):
        return None
    batch, feature = (_find_stored_pair(layer, statistics) for statistics in (BATCH_STATISTICS, FEATURE_STATISTICS))
    return LayerPopulation(batch, feature, layer.stored_memory_mean_and_weight)


def _find_stored_pair(layer: NormalizationBase, statistics: tuple[Statistic, Statistic]) -> PopulationPair | None:
    mean, deviation = (layer.find_configured_value(statistic) for statistic in statistics)
    if mean is None and deviation is None:
        return None
    if mean is None:
        assert deviation is not None
        mean = torch.full_like(deviation, torch.nan)
    return PopulationPair(mean, deviation, None if deviation is not None else "the layer has no such value")
