"""Memorized batch normalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from bln_search.core.blend import PopulationWeight
from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.enums import MbnStatisticSource, PopulationEstimate, parse_enum
from bln_search.core.errors import ModelError
from bln_search.core.method import Method, Statistic, StatisticSource
from bln_search.norms.extra_state import float_from_bits, float_to_bits
from bln_search.norms.formula_variant import BN_VARIANTS
from bln_search.norms.fused.terms import NO_HISTORY, HistoryKind, HistoryTerm
from bln_search.norms.mixture import MemoryMeanAndWeight, StoredAndMiniBatchMixture, mix_variances
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.normalization import Normalization, NormalizationOptions
from bln_search.norms.statistics import LayerPopulation, StatisticMoments

_ORIGINS = (None, PopulationEstimate.MEMORY, PopulationEstimate.LAST_STEP)
"""Origins of stored values by their number in a state dict; None for the population."""

_HAS_PRIOR = -1


class MBN(Normalization):
    """Batch normalization over the current mini-batch and a memory of recent ones.

    With weights a_i = λ·η^(k−i) for the k remembered mini-batches and 1 for the current one, n_i values in each:

        μ̂ = Σ a_i n_i μ_i / Σ a_i n_i,    σ̂² = Σ a_i n_i ((μ_i − μ̂)² + σ_i²) / Σ a_i n_i,    ε under the root.

    Training normalizes by μ̂ and σ̂; gradients flow through the current mini-batch only. λ = 0 is BN bit for bit. The
    paper can be read in three ways at inference:

    - source `M` uses the memory alone, the newest entry with weight 1: the same sums without a current mini-batch, in
      which λ cancels;
    - source `L` uses μ̂ and σ̂ of the last training step: the newest entry with weight 1, older ones λ, λη, λη², …;
    - source `C` is the rule of training: the mini-batch at hand with weight 1, the memory with λ, λη, λη², ….

    λ is that of the end of training. For λ = η, `L` equals `M`. While `records_history` is false, forward passes do not
    change the memory (the first pass of a double forward).

    Args:
        num_features: d, the length of the feature axis.
        memory_size: k, the number of remembered mini-batches.
        memory_decay: η.
        lambda_: λ; may be set before any step.
        memory_sources: the sources of the memory that configurations of the layer are enumerated with.
        between_variance: whether σ̂² has the term (μ_i − μ̂)², the variance between mini-batches; without it, σ̂² is the
            weighted mean of the variances (MBN paper, Eq. 4).
        layer: further arguments of `Normalization`.

    Source: Guo et al. 2018, Eq. 5-8, Algorithm 1.
    """

    method = Method.MBN
    has_history = True
    history_buffers: ClassVar[Mapping[str, int]] = {"memory": 2}
    has_fused_kernels = True
    formula_variants = BN_VARIANTS
    stored_buffers = (*Normalization.stored_buffers, "prior_mean")
    dynamic_buffers = (*stored_buffers, "memory")
    memory: Tensor | None
    prior_mean: Tensor | None

    def __init__(
        self,
        num_features: int,
        *,
        memory_size: int = 20,
        memory_decay: float = 0.9,
        lambda_: float = 0.5,
        memory_sources: Sequence[MbnStatisticSource | str] = (MbnStatisticSource.MEMORY,),
        between_variance: bool = True,
        **layer: Unpack[NormalizationOptions],
    ) -> None:
        super().__init__(num_features, **layer)
        if memory_size < 1 or not 0 < memory_decay <= 1 or not 0 <= lambda_ <= 1:
            raise ModelError(
                f"MBN takes memory_size of at least 1, memory_decay in (0, 1] and λ in [0, 1], not {memory_size}, "
                f"{memory_decay} and {lambda_}"
            )
        self.memory_size, self.memory_decay, self.lambda_ = memory_size, memory_decay, lambda_
        self.memory_sources = tuple(parse_enum(MbnStatisticSource, name, "memory_sources") for name in memory_sources)
        self.between_variance = between_variance
        self.register_buffer("memory", None)
        self.register_buffer("prior_mean", None)
        self._sizes: list[int] = []
        self._weights: tuple[list[int], Tensor] | None = None
        self._pooled: tuple[Tensor, Tensor] | None = None

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - as BN
        """Return weight one for the mini-batch branch."""
        return 1.0, 0.0

    def normalize_branch_in_training(
        self, x: Tensor, mean: Tensor, centred: Tensor, variance: Tensor, deviation: Tensor, weight: float
    ) -> Tensor:
        """Return (x − μ̂)/σ̂, Eq. 6-7, by the law of total variance over the mini-batch and the memory."""
        share = self._memory_share(self.input_axes(x.ndim).num_values_per_feature(x.shape))
        if self.memory is None or (isinstance(share, float) and share == 0):
            return super().normalize_branch_in_training(x, mean, centred, variance, deviation, weight)
        memory_mean, memory_variance = self._cached_memory_mean_and_variance()
        distance = mean - memory_mean
        total = mix_variances(variance, memory_variance, share, distance if self.between_variance else None)
        deviation = torch.sqrt(total + self.formula_variant.epsilon)
        return (centred + share * distance) * (weight / deviation)

    def make_history_term(self, values_per_batch: int) -> HistoryTerm:
        """Return mean and variance of the memory and its share beside the mini-batch, Eq. 5-7."""
        share = self._memory_share(values_per_batch)
        if share == 0:
            return NO_HISTORY
        values = torch.stack([value.flatten() for value in self._cached_memory_mean_and_variance()])
        return HistoryTerm(HistoryKind.MEMORY, values, share, self.between_variance)

    def update_history(
        self,
        mean: Tensor,
        deviation: Tensor,  # noqa: ARG002
        variance: Tensor,
        values_per_batch: int,
    ) -> None:
        """Add a mini-batch to the memory; where it is full, replace the oldest one."""
        entry = torch.stack([mean.detach(), variance.detach()]).unsqueeze(0)
        remaining = self.memory_size - 1
        self.memory = entry if self.memory is None else torch.cat([entry, self.memory[:remaining]])
        self._sizes = [values_per_batch, *self._sizes[:remaining]]
        self._pooled = None

    def moments_by_estimate_from_history(self) -> dict[str, LayerMoments]:
        """Return the weighted averages over the memory for the sources that are enumerated."""
        if self.memory is None:
            return {}
        weights = self._decayed_weights_by_age(torch.float64)
        estimates = {PopulationEstimate.MEMORY: self._weighted_memory_moments(weights, self._memory_weight())}
        if MbnStatisticSource.LAST_STEP in self.memory_sources:
            estimates[PopulationEstimate.LAST_STEP] = self._weighted_memory_moments(
                self._last_step_weights(torch.float64)
            )
        return {str(estimate): moments for estimate, moments in estimates.items()}

    def _weighted_memory_moments(self, weights: Tensor, prior_values: float | None = None) -> LayerMoments:
        assert self.memory is not None
        memory = self.memory.double()
        means, variances = memory[:, 0], memory[:, 1]
        mean = torch.tensordot(weights, means, 1)
        between = (means - mean).square() if self.between_variance else torch.zeros_like(means)
        parts = (between, torch.sqrt(variances + self.formula_variant.epsilon), variances)
        moments = StatisticMoments(mean, *(torch.tensordot(weights, part, 1) for part in parts))
        return LayerMoments(moments, None, self.batch_size or 1, self._sizes[0], prior_values)

    def find_mixture(
        self, source: StatisticSource, blend: PopulationWeight | None, prior: MemoryMeanAndWeight | None
    ) -> StoredAndMiniBatchMixture | None:
        """As in every layer; source `C` weights memory and mini-batch by Eq. 5-6."""
        if not source.has_stored_weight:
            return super().find_mixture(source, blend, prior)
        if prior is None:
            raise ModelError("source C needs the weight of the memory: apply a row of a ranked table, or train first")
        return StoredAndMiniBatchMixture(memory_values=prior.values, has_between_variance=self.between_variance)

    @property
    def stored_memory_mean_and_weight(self) -> MemoryMeanAndWeight | None:
        """The weight of the memory that `configure` stored; without one, that of the present memory."""
        if self.prior_mean is not None and self.prior_values is not None:
            return MemoryMeanAndWeight(self.prior_mean, self.prior_values)
        return (
            None
            if self.memory is None
            else MemoryMeanAndWeight(self._cached_memory_mean_and_variance()[0], self._memory_weight())
        )

    def configure(
        self,
        configuration: InferenceConfiguration,
        population: LayerPopulation | None = None,
        blend: PopulationWeight | None = None,
    ) -> None:
        """As in every layer; source `C` stores the weight of the memory too."""
        super().configure(configuration, population, blend)
        if population is not None:
            prior = population.prior
            self.prior_values = None if prior is None else prior.values
            self.prior_mean = (
                None if prior is None else prior.mean.to(self.weight.device, self.statistics_dtype, copy=True)
            )

    def drop_unused_populations(self) -> None:
        """As in every layer, with the weight of the memory."""
        super().drop_unused_populations()
        if not any(source.has_stored_weight for source in self.configuration.source_by_statistic.values()):
            self.prior_mean, self.prior_values = None, None

    def resolve_stored_value(self, statistic: Statistic, source: StatisticSource, x: Tensor) -> Tensor | None:
        """As in every layer; sources of the memory without a value set by `configure` use the present memory."""
        if source.fixed_estimate is None or self.has_configured_value_from(statistic, source) or self.memory is None:
            return super().resolve_stored_value(statistic, source, x)
        is_last_step = source.fixed_estimate is PopulationEstimate.LAST_STEP
        mean, variance = (
            self._weighted_memory_mean_and_variance(self._last_step_weights(self.memory.dtype))
            if is_last_step
            else self._cached_memory_mean_and_variance()
        )
        return mean if statistic is Statistic.BATCH_MEAN else torch.sqrt(variance + self.formula_variant.epsilon)

    def _memory_weight(self) -> float:
        """Return λ Σ η^age n_i, the weight of the memory beside a current mini-batch."""
        return self.lambda_ * sum(size * self.memory_decay**age for age, size in enumerate(self._sizes))

    def _memory_share(self, values_per_batch: int) -> float:
        """Return the share of the memory in the sum of all weights a_i n_i."""
        return self._memory_weight() / (self._memory_weight() + values_per_batch)

    def _cached_memory_mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance over the whole memory."""
        assert self.memory is not None
        pooled = self._pooled
        if pooled is None or (pooled[0].device, pooled[0].dtype) != (self.memory.device, self.memory.dtype):
            pooled = self._pooled = self._weighted_memory_mean_and_variance(
                self._decayed_weights_by_age(self.memory.dtype)
            )
        return pooled

    def _weighted_memory_mean_and_variance(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance over the memory with these weights, newest first, whose sum is 1."""
        assert self.memory is not None
        means, variances = self.memory[:, 0], self.memory[:, 1]
        mean = torch.tensordot(weights, means, 1)
        between = (means - mean).square() if self.between_variance else torch.zeros_like(means)
        return mean, torch.tensordot(weights, variances + between, 1)

    def _last_step_weights(self, dtype: torch.dtype) -> Tensor:
        """Return 1, λ, λη, λη², …, each times n, newest first, divided by their sum."""
        weights = self._decayed_weights_by_age(dtype).clone()
        weights[1:] *= self.lambda_ / self.memory_decay
        return weights / weights.sum()

    def _decayed_weights_by_age(self, dtype: torch.dtype) -> Tensor:
        """Return η^age·n, newest first, divided by their sum; computed again only after the sizes change."""
        assert self.memory is not None
        cached = self._weights
        if (
            cached is None
            or cached[0] != self._sizes
            or (cached[1].dtype, cached[1].device) != (dtype, self.memory.device)
        ):
            weights = [size * self.memory_decay**age for age, size in enumerate(self._sizes)]
            normalized = torch.tensor(
                [weight / sum(weights) for weight in weights], dtype=dtype, device=self.memory.device
            )
            cached = self._weights = list(self._sizes), normalized
        return cached[1]

    def list_extra_state_numbers(self) -> list[int]:
        """Return for each statistic the origin of its value, then the mini-batch sizes, newest first.

        The weight of the memory, if configured, is before them, after a number that is no origin.
        """
        prior = [] if self.prior_values is None else [_HAS_PRIOR, float_to_bits(self.prior_values)]
        origins = (_ORIGINS.index(self.origins.get(statistic)) for statistic in self.method.statistics)
        return [*prior, *origins, *self._sizes]

    def restore_extra_state_numbers(self, state: list[int]) -> None:
        """Restore the numbers that `list_extra_state_numbers` returned."""
        self.prior_values = None
        if state and state[0] == _HAS_PRIOR:
            self.prior_values, state = float_from_bits(state[1]), state[2:]
        count = len(self.method.statistics)
        named = {
            statistic: _ORIGINS[index] for statistic, index in zip(self.method.statistics, state[:count], strict=True)
        }
        self.origins = {statistic: origin for statistic, origin in named.items() if origin is not None}
        self._sizes = state[count:]
        self._pooled = None

    def extra_repr(self) -> str:
        """Return the arguments that distinguish this layer."""
        return f"{super().extra_repr()}, memory_size={self.memory_size}, memory_decay={self.memory_decay}"
