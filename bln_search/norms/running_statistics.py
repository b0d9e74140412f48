"""Layers that keep the running statistics of the torch layers that they replaced."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import InferenceConfiguration, mini_batch_configuration_of
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import StatisticSource
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.normalization import Normalization, NormalizationOptions
from bln_search.norms.statistics import LayerPopulation, PopulationPair, StatisticMoments

_ALREADY_CORRECTED = 2**62
"""n in n/(n-1) for a variance that is corrected already: the factor is exactly one in double precision."""


class TorchRunningStatisticsLayer(Normalization):
    """A layer of one pair of statistics, with the running statistics of the torch layer that it replaced, if any."""

    requires_layer_estimate = False
    dynamic_buffers = (*Normalization.dynamic_buffers, "running")
    running: Tensor | None
    """Moving averages of mean and corrected variance (2, d) of the torch layer that this one replaced."""

    def __init__(self, num_features: int, **layer: Unpack[NormalizationOptions]) -> None:
        super().__init__(num_features, **layer)
        self.register_buffer("running", None)
        self._ndim: int | None = None

    def use_running_statistics_as_population(self, mean: Tensor, variance: Tensor) -> None:
        """Keep running statistics of a replaced layer and use them as population values.

        Args:
            mean: (d,), moving average of the mean.
            variance: (d,), moving average of the corrected variance.
        """
        self.running = torch.stack([mean, variance])
        deviation = torch.sqrt(variance + self.formula_variant.epsilon)
        pair = PopulationPair(mean.unsqueeze(0), deviation.unsqueeze(0))
        population = LayerPopulation(pair, None) if self.has_batch_statistics else LayerPopulation(None, pair)
        self.configure(self._population_configuration, population)

    @property
    def reproduces_replaced_layer_outputs(self) -> bool:
        """Whether it uses the replaced layer's running statistics or, where that had none, the mini-batch."""
        if self.running is None:
            return self.replaces_torch_layer and self.configuration == mini_batch_configuration_of(self.method)
        mean = self.find_configured_value(self.method.statistics[0])
        uses_running = mean is not None and torch.equal(mean.flatten(), self.running[0].to(mean.dtype))
        return self.replaces_torch_layer and uses_running and self.configuration == self._population_configuration

    def moments_by_estimate_from_history(self) -> dict[str, LayerMoments]:
        """Return the moving averages of the replaced layer; empty once this layer is trained."""
        if self.running is None:
            return {}
        ndim = self._ndim or self._min_input_ndim  # before the first forward pass
        shape = self.input_axes(ndim).broadcast_shape(self.num_features)
        mean, variance = (value.double().view(shape) for value in self.running)
        moments = StatisticMoments(
            mean, torch.zeros_like(mean), torch.sqrt(variance + self.formula_variant.epsilon), variance
        )
        batch, feature = (moments, None) if self.has_batch_statistics else (None, moments)
        return {PopulationEstimate.MOVING: LayerMoments(batch, feature, self.batch_size or 1, _ALREADY_CORRECTED)}

    @property
    def _min_input_ndim(self) -> int:
        """The smallest number of axes of an input."""
        return 2

    @property
    def _population_configuration(self) -> InferenceConfiguration:
        """All statistics from the population."""
        return InferenceConfiguration(
            mini_batch_configuration_of(self.method).code.replace(
                StatisticSource.MINI_BATCH, StatisticSource.POPULATION
            )
        )

    def _record_statistics(self, statistics: list[Tensor], x: Tensor) -> None:
        if self.training:
            self.running = None
        elif statistics:
            self._ndim = x.ndim
        super()._record_statistics(statistics, x)
