"""Memorized batch normalization."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from bln_search.core.configuration import Method, Source, Statistic
from bln_search.core.enums import PopulationEstimate
from bln_search.core.errors import ModelError
from bln_search.norms.formula_variant import BN_VARIANTS
from bln_search.norms.layer import LayerOptions, Normalization
from bln_search.norms.moment_collection import LayerMoments
from bln_search.norms.statistics import Moments


class MBN(Normalization):
    """Batch normalization over the current mini-batch and a memory of recent ones.

    With weights a_i = λ·η^(k−i) for the k remembered mini-batches and 1 for the current one, n_i values in each:

        μ̂ = Σ a_i n_i μ_i / Σ a_i n_i,    σ̂² = Σ a_i n_i ((μ_i − μ̂)² + σ_i²) / Σ a_i n_i,    ε under the root.

    Training normalizes by μ̂ and σ̂; gradients flow through the current mini-batch only. λ = 0 is BN bit for bit. At
    inference, source `M` uses the memory alone, the newest entry with weight 1: the same sums without a current
    mini-batch, in which λ cancels. While `records_history` is false, forward passes do not change the memory (the first
    pass of a double forward).

    Args:
        num_features: d, the length of the feature axis.
        memory_size: k, the number of remembered mini-batches.
        memory_decay: η.
        lambda_: λ; may be set before any step.
        layer: further arguments of `Normalization`.

    Source: Guo et al. 2018, Eq. 5-8, Algorithm 1.
    """

    method = Method.MBN
    has_history = True
    formula_variants = BN_VARIANTS
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

    def branch_weights(self, batch_size: int) -> tuple[float, float]:  # noqa: ARG002 - as BN
        """Return weight one for the mini-batch branch."""
        return 1.0, 0.0

    def training_branch(
        self, x: Tensor, mean: Tensor, centred: Tensor, variance: Tensor, deviation: Tensor, weight: float
    ) -> Tensor:
        """Return (x − μ̂)/σ̂, Eq. 6-7, by the law of total variance over the mini-batch and the memory."""
        share = self._memory_share(x.numel() // self.num_features)
        if share == 0:
            return super().training_branch(x, mean, centred, variance, deviation, weight)
        memory_mean, memory_variance = self._pooled_memory()
        shift = mean - memory_mean
        total = (1 - share) * variance + share * memory_variance + share * (1 - share) * shift.square()
        return (centred + share * shift) * (weight / torch.sqrt(total + self.formula_variant.epsilon))

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

    def history_estimates(self) -> dict[str, LayerMoments]:
        """Return the weighted averages over the memory."""
        if self.memory is None:
            return {}
        weights, memory = self._age_weights(torch.float64), self.memory.double()
        means, variances = memory[:, 0], memory[:, 1]
        mean = torch.tensordot(weights, means, 1)
        parts = ((means - mean).square(), torch.sqrt(variances + self.formula_variant.epsilon), variances)
        moments = Moments(mean, *(torch.tensordot(weights, part, 1) for part in parts))
        return {PopulationEstimate.MEMORY: LayerMoments(moments, None, self.batch_size or 1, self._sizes[0])}

    def inference_value(self, statistic: Statistic, source: Source, x: Tensor) -> Tensor | None:
        """As in every layer; source `M` without a value set by `configure` uses the present memory."""
        if source is Source.MEMORY and not self.is_configured(statistic, source) and self.memory is not None:
            mean, variance = self._pooled_memory()
            return mean if statistic is Statistic.BATCH_MEAN else torch.sqrt(variance + self.formula_variant.epsilon)
        return super().inference_value(statistic, source, x)

    def _memory_share(self, values_per_batch: int) -> float:
        """Return the share of the memory in the sum of all weights a_i n_i."""
        memory_weight = self.lambda_ * sum(size * self.memory_decay**age for age, size in enumerate(self._sizes))
        return memory_weight / (memory_weight + values_per_batch)

    def _pooled_memory(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance over the whole memory."""
        assert self.memory is not None
        pooled = self._pooled
        if pooled is None or (pooled[0].device, pooled[0].dtype) != (self.memory.device, self.memory.dtype):
            weights = self._age_weights(self.memory.dtype)
            means, variances = self.memory[:, 0], self.memory[:, 1]
            mean = torch.tensordot(weights, means, 1)
            pooled = self._pooled = mean, torch.tensordot(weights, variances + (means - mean).square(), 1)
        return pooled

    def _age_weights(self, dtype: torch.dtype) -> Tensor:
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

    def history_state(self) -> list[int]:
        """Return for each statistic whether its value is from the memory, then the mini-batch sizes, newest first."""
        return [*(int(statistic in self.from_memory) for statistic in self.method.statistics), *self._sizes]

    def load_history_state(self, state: list[int]) -> None:
        """Restore the numbers that `history_state` returned."""
        count = len(self.method.statistics)
        flags, self._sizes = state[:count], state[count:]
        self.from_memory = frozenset(
            statistic for statistic, flag in zip(self.method.statistics, flags, strict=True) if flag
        )
        self._pooled = None

    def extra_repr(self) -> str:
        """Return the arguments that distinguish this layer."""
        return f"{super().extra_repr()}, memory_size={self.memory_size}, memory_decay={self.memory_decay}"
