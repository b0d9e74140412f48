"""Collection of the normalization statistics of several networks that are trained as one program."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from bln_search.norms.moment_collection import MomentAccumulator


class LayerRecorder(MomentAccumulator):
    """Keeps the statistics of the present step of one layer, with the networks on axis 1; all batches have one size."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = 0, 0
        self.shapes: list[torch.Size] = []
        self.vectors = torch.empty(0)

    def update(self, statistics: list[Tensor], batch_size: int, values_per_batch: int) -> None:
        """Keep (mean, deviation, variance) of each pair, (1 or N, K, ...), as vectors (K, S)."""
        self.sizes = batch_size, values_per_batch
        self.shapes = [torch.Size((value.shape[0], *value.shape[2:])) for value in statistics]
        self.vectors = torch.cat([value.detach().transpose(0, 1).flatten(1) for value in statistics], 1)


class StackedMoments:
    """Does for the layers of K networks in an epoch what `MomentAccumulator` does for one layer of one network.

    Args:
        accumulators: Those of each layer in each network; the networks may have seen different numbers of mini-batches.
        decay: Of the moving average; None for the mean over all mini-batches.
        num_steps: Number of steps of the epoch.
        device: Of the networks.

    Attributes:
        recorders: One for each layer, which receives its statistics.
    """

    def __init__(
        self,
        accumulators: Sequence[Sequence[MomentAccumulator]],
        decay: float | None,
        num_steps: int,
        device: torch.device,
    ) -> None:
        self.recorders = [LayerRecorder() for _ in accumulators]
        self._accumulators, self._device = accumulators, device
        self._states = [[accumulator.state_tensors() for accumulator in of_layer] for of_layer in accumulators]
        self._keep, self._add = (1.0, 1.0) if decay is None else (decay, 1.0 - decay)
        self._num_steps, self._step = num_steps, 0
        weights = torch.stack([state["weight"] for state in self._states[0]])
        self._has_earlier = bool((weights > 0).any())
        factors, divisors = [], []
        for _ in range(num_steps):
            old_weights = weights * self._keep
            factors.append((self._add * old_weights / (old_weights + self._add)).sqrt())
            divisors.append(torch.where(weights > 0, weights, 1.0))
            weights = old_weights + self._add
        self._final_weights = weights
        self._factors, self._divisors = (torch.stack(rows).unsqueeze(2).to(device) for rows in (factors, divisors))
        self._sum, self._scatter = torch.empty(0), torch.empty(0)

    def end_step(self) -> None:
        """Accumulate the statistics that the layers passed to their recorders."""
        vectors = torch.cat([recorder.vectors for recorder in self.recorders], 1).double()
        if self._step == 0:
            self._sum, self._scatter = (self._stack_earlier(name, vectors) for name in ("sum", "scatter"))
        if self._step or self._has_earlier:
            distance = (vectors - self._sum / self._divisors[self._step]) * self._factors[self._step]
            self._scatter.mul_(self._keep).addcmul_(distance, distance)
        self._sum.mul_(self._keep).add_(vectors, alpha=self._add)
        self._step += 1

    def _stack_earlier(self, name: str, like: Tensor) -> Tensor:
        """Return the sums (K, S) of earlier epochs; zero where there are none."""
        if not self._has_earlier:
            return torch.zeros_like(like)
        parts = []
        for recorder, states in zip(self.recorders, self._states, strict=True):
            zeros = torch.zeros(recorder.vectors.shape[1], dtype=like.dtype, device=like.device)
            parts.append(torch.stack([state.get(name, zeros) for state in states]))
        return torch.cat(parts, 1)

    def copy_to_accumulators(self) -> None:
        """Give the accumulators of the networks what was accumulated, after the last step of the epoch."""
        ends = accumulate((recorder.vectors.shape[1] for recorder in self.recorders), initial=0)
        of_layers = zip(self.recorders, self._accumulators, self._states, pairwise(ends), strict=True)
        for recorder, accumulators, states, (start, end) in of_layers:
            shapes = {f"shape{index}": torch.tensor(shape) for index, shape in enumerate(recorder.shapes)}
            for index, (accumulator, state) in enumerate(zip(accumulators, states, strict=True)):
                sizes = state["sizes"].clone()
                sizes[:2] = torch.tensor(recorder.sizes)
                sizes[2:4] += self._num_steps
                sums = {"sum": self._sum[index, start:end], "scatter": self._scatter[index, start:end]}
                tensors = {"sizes": sizes, "weight": self._final_weights[index], **shapes, **sums}
                accumulator.restore_state(tensors, self._device)
