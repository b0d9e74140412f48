"""Memorized batch normalization."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import Method, Source, Statistic
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.formula_variant import BN_READINGS
from bln_search.norms.layer import LayerOptions, Normalization
from bln_search.norms.moment_collection import GatheredMoments
from bln_search.norms.statistics import Moments


class MBN(Normalization):
    """Batch normalization over the mini-batch at hand and a memory of recent ones.

    With weights a_i = λ·η^(k−i) for the k remembered mini-batches and 1 for the one at hand, n_i values in each:

        μ̂ = Σ a_i n_i μ_i / Σ a_i n_i,    σ̂² = Σ a_i n_i ((μ_i − μ̂)² + σ_i²) / Σ a_i n_i,    ε under the root.

    Training normalizes by μ̂ and σ̂; gradients flow through the mini-batch at hand only. λ = 0 is BN bit for bit. At
    inference `M` reads the memory alone, the newest entry with weight 1: the same sums without a mini-batch at hand, in
    which λ cancels.

    memory_size: k, how many mini-batches are remembered. memory_decay: η. `lambda_` is λ, set before any step.
    While `recording` is false, passes leave the memory as it is (the first of a double forward).
    Source: Guo et al. 2018, Eq. 5-8, Algorithm 1.
    """

    method = Method.MBN
    readings = BN_READINGS
    dynamic_buffers = (*Normalization.dynamic_buffers, "memory")
    memory: Tensor | None

    def __init__(
        self,
        num_features: int,
        *,
        memory_size: int = 20,
        memory_decay: float = 0.9,
        lambda_: float = 0.5,
        **layer: Unpack[LayerOptions],
    ) -> None:
        super().__init__(num_features, **layer)
        if memory_size < 1 or not 0 < memory_decay <= 1 or not 0 <= lambda_ <= 1:
            raise ModelError(
                f"MBN takes memory_size of at least 1, memory_decay in (0, 1] and λ in [0, 1], not {memory_size}, "
                f"{memory_decay} and {lambda_}"
            )
        self.memory_size, self.memory_decay, self.lambda_ = memory_size, memory_decay, lambda_
        self.register_buffer("memory", None)
        self._sizes: list[int] = []
        self._weights: tuple[list[int], Tensor] | None = None
        self._pooled: tuple[Tensor, Tensor] | None = None

    def factors(self, m: int) -> tuple[float, float]:  # noqa: ARG002 - as BN
        """The whole of the mini-batch part."""
        return 1.0, 0.0

    def training_part(
        self, x: Tensor, mean: Tensor, centred: Tensor, variance: Tensor, deviation: Tensor, factor: float
    ) -> Tensor:
        """(x − μ̂)/σ̂, Eq. 6 and 7, as the law of total variance over two groups: the mini-batch and the memory."""
        share = self._memory_share(x.numel() // self.num_features)
        if share == 0:
            return super().training_part(x, mean, centred, variance, deviation, factor)
        remembered_mean, remembered_variance = self._pooled_memory()
        shift = mean - remembered_mean
        total = (1 - share) * variance + share * remembered_variance + share * (1 - share) * shift.square()
        return (centred + share * shift) * (factor / torch.sqrt(total + self.reading.epsilon))

    def remember(self, mean: Tensor, deviation: Tensor, variance: Tensor, values: int) -> None:  # noqa: ARG002
        """Put a mini-batch into the memory, in place of the oldest one where it is full."""
        entry = torch.stack([mean.detach(), variance.detach()]).unsqueeze(0)
        kept = self.memory_size - 1
        self.memory = entry if self.memory is None else torch.cat([entry, self.memory[:kept]])
        self._sizes = [values, *self._sizes[:kept]]
        self._pooled = None

    def own_estimates(self) -> dict[PopulationEstimate, GatheredMoments]:
        """What the memory holds, as weighted averages."""
        if self.memory is None:
            return {}
        weights, memory = self._age_weights(torch.float64), self.memory.double()
        means, variances = memory[:, 0], memory[:, 1]
        mean = torch.tensordot(weights, means, 1)
        parts = ((means - mean).square(), torch.sqrt(variances + self.reading.epsilon), variances)
        moments = Moments(mean, *(torch.tensordot(weights, part, 1) for part in parts))
        return {PopulationEstimate.MEMORY: GatheredMoments(moments, None, self.batch_size or 1, self._sizes[0])}

    def inference_value(self, statistic: Statistic, source: Source, x: Tensor) -> Tensor | None:
        """As in every layer; `M` without a value put in by `configure` reads the memory as it is now."""
        if source is Source.MEMORY and not self.is_configured(statistic, source) and self.memory is not None:
            mean, variance = self._pooled_memory()
            return mean if statistic is Statistic.BATCH_MEAN else torch.sqrt(variance + self.reading.epsilon)
        return super().inference_value(statistic, source, x)

    def _memory_share(self, values: int) -> float:
        """The memory's part in the sum of all weights a_i n_i."""
        remembered = self.lambda_ * sum(size * self.memory_decay**age for age, size in enumerate(self._sizes))
        return remembered / (remembered + values)

    def _pooled_memory(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of everything in the memory."""
        assert self.memory is not None
        kept = self._pooled
        if kept is None or (kept[0].device, kept[0].dtype) != (self.memory.device, self.memory.dtype):
            weights = self._age_weights(self.memory.dtype)
            means, variances = self.memory[:, 0], self.memory[:, 1]
            mean = torch.tensordot(weights, means, 1)
            kept = self._pooled = mean, torch.tensordot(weights, variances + (means - mean).square(), 1)
        return kept

    def _age_weights(self, dtype: torch.dtype) -> Tensor:
        """η^age·n, newest first, divided by their sum; made anew only where the sizes have changed."""
        assert self.memory is not None
        kept = self._weights
        if kept is None or kept[0] != self._sizes or (kept[1].dtype, kept[1].device) != (dtype, self.memory.device):
            weights = [size * self.memory_decay**age for age, size in enumerate(self._sizes)]
            made = torch.tensor([weight / sum(weights) for weight in weights], dtype=dtype, device=self.memory.device)
            kept = self._weights = list(self._sizes), made
        return kept[1]

    def own_state(self) -> list[int]:
        """Which configured values are from the memory, and the sizes of the remembered mini-batches, newest first."""
        return [*(int(statistic in self.from_memory) for statistic in self.method.statistics), *self._sizes]

    def set_own_state(self, state: list[int]) -> None:
        """What `own_state` returned."""
        marks, self._sizes = state[: len(self.method.statistics)], state[len(self.method.statistics) :]
        self.from_memory = frozenset(s for s, mark in zip(self.method.statistics, marks, strict=True) if mark)
        self._pooled = None

    def extra_repr(self) -> str:
        """What distinguishes this layer."""
        return f"{super().extra_repr()}, memory_size={self.memory_size}, memory_decay={self.memory_decay}"
