"""Robust batch normalization of RoTTA: population statistics that chosen mini-batches move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.normalization import Normalization
from bln_search.norms.statistics import LayerPopulation, PopulationPair


class RobustStatistics:
    """The mini-batch statistics of all layers of a network: those of the population, which moves in `moving` only.

    There a layer normalizes by source E: with the momentum α, for means and variances, s ← (1 − α)·s + α·b, and the
    gradient passes through the statistics b of the mini-batch.

    Args:
        network: Whose layers with mini-batch statistics take them from the population.
        momentum: α, between 0 and 1.
        adaptation: Name of the method, for messages.

    Raises:
        ModelError: A layer takes its mini-batch statistics from elsewhere.
    """

    def __init__(self, network: nn.Module, momentum: float, adaptation: str) -> None:
        self._weight = PopulationWeight(1 - momentum)
        self._layers = [layer for layer in get_norms_by_name(network).values() if layer.has_batch_statistics]
        for layer in self._layers:
            if not layer.configuration.code.startswith("TT"):
                raise ModelError(
                    f"{adaptation} starts from the mini-batch statistics of the population, and a layer has the "
                    f"configuration {layer.configuration}: use the configuration T for this arm"
                )

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Move the population in this context, once for each mini-batch."""
        configurations = [layer.configuration for layer in self._layers]
        for layer in self._layers:
            layer.configure(InferenceConfiguration("EE" + layer.configuration.code[2:]), None, self._weight)
        yield
        for layer, configuration in zip(self._layers, configurations, strict=True):
            layer.configure(configuration, _make_moved_population(layer))


def _make_moved_population(layer: Normalization) -> LayerPopulation | None:
    """Return the population of a layer with its moving values; None for a layer that no mini-batch reached."""
    moved = layer.moving_values
    if moved is None:
        return None
    batch_mean, batch_deviation = (moved[statistic] for statistic in BATCH_STATISTICS)
    return LayerPopulation(PopulationPair(batch_mean, batch_deviation), _find_pair(layer, FEATURE_STATISTICS))


def _find_pair(layer: Normalization, statistics: tuple[Statistic, Statistic]) -> PopulationPair | None:
    """Return the present population values of a pair; None where the layer has none."""
    mean, deviation = (layer.find_configured_value(statistic) for statistic in statistics)
    return None if mean is None else PopulationPair(mean, deviation)
