"""Layers that keep the running statistics of the torch layers that they replaced."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor
from torch.nn.functional import batch_norm

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration, mini_batch_configuration_of
from bln_search.core.enums import PopulationEstimate
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic, StatisticSource
from bln_search.norms.layer_state import BUFFERS
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.normalization import Normalization, NormalizationOptions
from bln_search.norms.statistics import LayerPopulation, StatisticMoments

_ALREADY_CORRECTED = 2**62
"""n in n/(n-1) for a variance that is corrected already: the factor is exactly one in double precision."""

_BATCH_POPULATION = InferenceConfiguration("TT--")

_MEANS = (BATCH_STATISTICS[0], FEATURE_STATISTICS[0])


class TorchRunningStatisticsLayer(Normalization):
    """A layer of one pair of statistics, with the running statistics of the torch layer that it replaced, if any.

    They have the names that they have in torch, and training steps update them by torch's rule. While no other
    population values are configured, they are the population values.
    """

    requires_layer_estimate = False
    running_buffers = ("running_mean", "running_var", "num_batches_tracked")
    """Buffers of the running statistics, which torch's layers have too."""
    dynamic_buffers = (*Normalization.dynamic_buffers, *running_buffers)
    running_mean: Tensor | None
    """(d,), moving average of the mean."""
    running_var: Tensor | None
    """(d,), moving average of the corrected variance."""
    num_batches_tracked: Tensor | None
    """Number of mini-batches in the moving averages."""
    momentum: float | None = 0.1
    """Weight of a mini-batch in the moving averages; None for their plain mean."""
    track_running_stats: bool = True
    """Whether training steps update the moving averages."""

    def __init__(self, num_features: int, **layer: Unpack[NormalizationOptions]) -> None:
        super().__init__(num_features, **layer)
        for name in self.running_buffers:
            self.register_buffer(name, None)
        self._ndim: int | None = None

    def use_running_statistics_as_population(
        self, mean: Tensor, variance: Tensor, num_batches_tracked: Tensor | None = None
    ) -> None:
        """Keep running statistics of a replaced layer and use them as population values.

        Args:
            mean: (d,), moving average of the mean.
            variance: (d,), moving average of the corrected variance.
            num_batches_tracked: number of mini-batches in the averages.
        """
        self.running_mean, self.running_var = mean.detach().clone(), variance.detach().clone()
        count = torch.zeros((), dtype=torch.long, device=mean.device)
        self.num_batches_tracked = count if num_batches_tracked is None else num_batches_tracked.clone()
        self.configure(self._population_configuration)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize `x`; with torch's own operation where the layer computes what the replaced one did."""
        return self._normalize_by_torch(x) if self._is_normalized_by_torch(x) else super().forward(x)

    def _is_normalized_by_torch(self, x: Tensor) -> bool:
        """Whether the layer is batch normalization of torch at present, without statistics for this package."""
        if not self.replaces_torch_layer or self.accumulators or self.uses_fused_kernels or type(x) is not Tensor:
            return False
        variant = self.formula_variant
        if not (self.has_batch_statistics and self.feature_axis == 1 and variant.pools_positions):
            return False
        if variant.unbiased or x.ndim < 2 or x.shape[1] != self.num_features:
            return False
        dtype = self.weight.dtype
        if x.dtype is not dtype and not (dtype is torch.float32 and x.dtype in (torch.float16, torch.bfloat16)):
            return False
        if self.training:
            return self.training_configuration is None and x.numel() > self.num_features
        return self.uses_running_statistics and self.configuration == _BATCH_POPULATION

    def _normalize_by_torch(self, x: Tensor) -> Tensor:
        if self.observe_call is not None:
            self.observe_call(self, x)
        is_updated = self.training and self.records_history and self.track_running_stats
        running = self._buffers["running_mean"], self._buffers["running_var"]
        share = 0.0
        if self.training and self.records_history:
            self.population_outdated = not self.uses_running_statistics
        if is_updated and running[0] is not None:
            share = float(self._share_of_mini_batch())
        elif self.training:
            running = None, None
        return batch_norm(x, *running, self.weight, self.bias, self.training, share, self.formula_variant.epsilon)

    @property
    def has_history(self) -> bool:  # type: ignore[override]
        """Whether the layer has running statistics, which training steps update."""
        return self.running_mean is not None

    @property
    def uses_running_statistics(self) -> bool:
        """Whether the population values are the running statistics."""
        buffers = self._buffers
        mean, deviation = self.method.statistics
        return (
            buffers[BUFFERS[mean]] is None
            and buffers[BUFFERS[deviation]] is None
            and buffers["running_mean"] is not None
            and buffers["running_var"] is not None
        )

    def find_configured_value(self, statistic: Statistic) -> Tensor | None:
        """Return the value of `statistic` that `configure` set; that of the running statistics where none is set."""
        if not self.uses_running_statistics or statistic not in self.method.statistics:
            return super().find_configured_value(statistic)
        mean, variance = self.running_mean, self.running_var
        assert mean is not None
        assert variance is not None
        if statistic in _MEANS:
            return mean.to(self.statistics_dtype).unsqueeze(0)
        return torch.sqrt(variance.to(self.statistics_dtype) + self.formula_variant.epsilon).unsqueeze(0)

    def configure(
        self,
        configuration: InferenceConfiguration,
        population: LayerPopulation | None = None,
        blend: PopulationWeight | None = None,
    ) -> None:
        """Use `configuration` at inference, see `Normalization`; values of the running statistics follow these."""
        super().configure(configuration, population, blend)
        if population is not None and self._has_values_of_running_statistics():
            self._clear_stored_values()

    def update_history(self, mean: Tensor, deviation: Tensor, variance: Tensor, values_per_batch: int) -> None:  # noqa: ARG002
        """Update the running statistics as torch's layer does.

        Population values that are constants of a training configuration stay as they are.
        """
        if self.uses_running_statistics:
            if self.training_configuration is None:
                self.population_outdated = False
            else:
                self._store_running_statistics()
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        with torch.no_grad():
            count = values_per_batch // mean.shape[0]
            share = self._share_of_mini_batch()
            for running, value in (
                (self.running_mean, mean),
                (self.running_var, variance * (count / max(count - 1, 1))),
            ):
                running.lerp_(value.mean(0).flatten().to(running.dtype), share)

    def _share_of_mini_batch(self) -> float | Tensor:
        """Count a mini-batch; return its weight in the moving averages."""
        assert self.running_mean is not None
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.momentum is not None:
            return self.momentum
        return 0.0 if self.num_batches_tracked is None else self.num_batches_tracked.to(self.running_mean).reciprocal()

    @property
    def reproduces_replaced_layer_outputs(self) -> bool:
        """Whether it uses the running statistics or, where the replaced layer had none, the mini-batch."""
        if self.running_mean is None:
            return self.replaces_torch_layer and self.configuration == mini_batch_configuration_of(self.method)
        return (
            self.replaces_torch_layer
            and self.uses_running_statistics
            and self.configuration == self._population_configuration
        )

    def moments_by_estimate_from_history(self) -> dict[str, LayerMoments]:
        """Return the running statistics; empty without them."""
        if self.running_mean is None or self.running_var is None:
            return {}
        ndim = self._ndim or self._min_input_ndim  # before the first forward pass
        shape = self.input_axes(ndim).broadcast_shape(self.num_features)
        mean, variance = (value.double().view(shape) for value in (self.running_mean, self.running_var))
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

    def _has_values_of_running_statistics(self) -> bool:
        """Whether the configured values are equal to the running statistics, up to rounding in their dtype."""
        stored = [super(TorchRunningStatisticsLayer, self).find_configured_value(s) for s in self.method.statistics]
        if self.running_mean is None or self.running_var is None or self.origins or any(v is None for v in stored):
            return False
        running = self.running_mean, torch.sqrt(self.running_var.double() + self.formula_variant.epsilon)
        return all(
            value is not None
            and value.numel() == expected.numel()
            and torch.allclose(
                value.double().flatten(), expected.double(), rtol=2 * torch.finfo(value.dtype).eps, atol=0.0
            )
            for value, expected in zip(stored, running, strict=True)
        )

    def _clear_stored_values(self) -> None:
        for name in BUFFERS.values():
            setattr(self, name, None)

    def _store_running_statistics(self) -> None:
        """Keep the running statistics as population values that do not change with them."""
        values = {BUFFERS[statistic]: self.find_configured_value(statistic) for statistic in self.method.statistics}
        for name, value in values.items():
            setattr(self, name, None if value is None else value.clone())

    def _record_statistics(self, statistics: list[Tensor], x: Tensor) -> None:
        if statistics and not self.training:
            self._ndim = x.ndim
        super()._record_statistics(statistics, x)

    @property
    def configuration_of_replaced_layer(self) -> InferenceConfiguration:
        """The running statistics; the mini-batch without them."""
        return super().configuration_of_replaced_layer if self.running_mean is None else self._population_configuration

    def allocate_buffer(self, name: str, like: Tensor | None) -> None:
        """Make the buffer `name` an empty tensor like `like`; running statistics keep their tensors."""
        if like is None or name not in self.running_buffers:
            super().allocate_buffer(name, like)
        elif self._buffers[name] is None:
            dtype = like.dtype if name == "num_batches_tracked" else self.weight.dtype
            setattr(self, name, torch.zeros_like(like, dtype=dtype, device=self.weight.device))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        _upgrade_running_statistics(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)
        if self._has_values_of_running_statistics():
            self._clear_stored_values()


def _upgrade_running_statistics(state_dict: dict[str, Any], prefix: str) -> None:
    """Give the running statistics of earlier formats, of this package and of torch, their present names."""
    running = state_dict.pop(f"{prefix}running", None)
    if running is not None:
        state_dict[f"{prefix}running_mean"], state_dict[f"{prefix}running_var"] = running
    if f"{prefix}running_mean" in state_dict:
        state_dict.setdefault(f"{prefix}num_batches_tracked", torch.zeros((), dtype=torch.long))
