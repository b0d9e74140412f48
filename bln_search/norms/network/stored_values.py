"""The population values that a normalization layer has for its configuration."""

from __future__ import annotations

import torch

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic
from bln_search.norms.base import NormalizationBase
from bln_search.norms.statistics import LayerPopulation, PopulationPair


def missing_statistics(layer: NormalizationBase) -> list[Statistic]:
    """Return the statistics whose stored value the configuration of `layer` reads and the layer does not have."""
    sources = {statistic: layer.configuration.source(statistic) for statistic in layer.method.statistics}
    return [
        statistic
        for statistic, source in sources.items()
        if source.is_stored and not layer.is_configured(statistic, source)
    ]


def stored_population(layer: NormalizationBase) -> LayerPopulation | None:
    """Return the values that `configure` stored in `layer`; None where its configuration reads none.

    A mean that the layer does not have is NaN; the configuration does not read it.
    """
    if not any(layer.configuration.source(statistic).is_stored for statistic in layer.method.statistics):
        return None
    return LayerPopulation(_stored_pair(layer, BATCH_STATISTICS), _stored_pair(layer, FEATURE_STATISTICS))


def _stored_pair(layer: NormalizationBase, statistics: tuple[Statistic, Statistic]) -> PopulationPair | None:
    mean, deviation = (layer.configured_value(statistic) for statistic in statistics)
    if mean is None and deviation is None:
        return None
    if mean is None:
        assert deviation is not None
        mean = torch.full_like(deviation, torch.nan)
    return PopulationPair(mean, deviation, None if deviation is not None else "the layer has no such value")
