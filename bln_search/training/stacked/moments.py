"""Collection of the normalization statistics of several networks that are trained as one program."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from bln_search.norms.moment_collection import MomentAccumulator
from bln_search.training.stacked.step_tables import StepTables


class StepStatisticsRecorder(MomentAccumulator):
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
    """Does for the layers of K networks what `MomentAccumulator` does for one layer of one network.

    Args:
        num_layers: Number of normalization layers of a network.
        decay: Of the moving average; None for the mean over all mini-batches.
        tables: Of the steps.
        name: Name of the estimate.

    Attributes:
        recorders: One for each layer, which receives its statistics.
    """

    def __init__(self, num_layers: int, decay: float | None, tables: StepTables, name: str) -> None:
        self.recorders = [StepStatisticsRecorder() for _ in range(num_layers)]
        self._keep, self._add = (1.0, 1.0) if decay is None else (decay, 1.0 - decay)
        self._tables, self._factors, self._divisors = tables, f"{name} factors", f"{name} divisors"
        self._accumulators: Sequence[Sequence[MomentAccumulator]] = []
        self._states: list[list[dict[str, Tensor]]] = []
        self._weights = torch.empty(0)
        self._num_steps = 0
        self._sum: Tensor | None = None
        self._scatter: Tensor | None = None

    def begin_epoch(self, accumulators: Sequence[Sequence[MomentAccumulator]], num_steps: int) -> None:
        """Continue what the accumulators of each layer in each network have seen, for a number of steps.

        The networks may have seen different numbers of mini-batches.
        """
        self._accumulators, self._num_steps = accumulators, num_steps
        self._states = [[accumulator.state_tensors() for accumulator in of_layer] for of_layer in accumulators]
        weights = torch.stack([state["weight"] for state in self._states[0]])
        factors, divisors = [], []
        for _ in range(num_steps):
            old_weights = weights * self._keep
            factors.append((self._add * old_weights / (old_weights + self._add)).sqrt())
            divisors.append(torch.where(weights > 0, weights, 1.0))
            weights = old_weights + self._add
        self._weights = weights
        self._tables.write(self._factors, torch.stack(factors).unsqueeze(2))
        self._tables.write(self._divisors, torch.stack(divisors).unsqueeze(2))
        if self._sum is not None and self._scatter is not None:
            self._sum.copy_(self._stack_earlier("sum", self._sum))
            self._scatter.copy_(self._stack_earlier("scatter", self._scatter))

    def end_step(self) -> None:
        """Accumulate the statistics that the layers passed to their recorders."""
        vectors = torch.cat([recorder.vectors for recorder in self.recorders], 1).double()
        if self._sum is None or self._scatter is None:
            self._sum, self._scatter = (self._stack_earlier(name, vectors) for name in ("sum", "scatter"))
        distance = (vectors - self._sum / self._tables.read(self._divisors)) * self._tables.read(self._factors)
        self._scatter.mul_(self._keep).addcmul_(distance, distance)
        self._sum.mul_(self._keep).add_(vectors, alpha=self._add)

    def _stack_earlier(self, name: str, like: Tensor) -> Tensor:
        """Return the sums (K, S) of earlier epochs; zero where there are none."""
        parts = []
        for recorder, states in zip(self.recorders, self._states, strict=True):
            zeros = torch.zeros(recorder.vectors.shape[1], dtype=like.dtype, device=like.device)
            parts.append(torch.stack([state.get(name, zeros) for state in states]))
        return torch.cat(parts, 1)

    def end_epoch(self) -> None:
        """Give the accumulators of the networks what was accumulated."""
        assert self._sum is not None
        assert self._scatter is not None
        ends = accumulate((recorder.vectors.shape[1] for recorder in self.recorders), initial=0)
        of_layers = zip(self.recorders, self._accumulators, self._states, pairwise(ends), strict=True)
        for recorder, accumulators, states, (start, end) in of_layers:
            shapes = {f"shape{index}": torch.tensor(shape) for index, shape in enumerate(recorder.shapes)}
            for index, (accumulator, state) in enumerate(zip(accumulators, states, strict=True)):
                sizes = state["sizes"].clone()
                sizes[:2] = torch.tensor(recorder.sizes)
                sizes[2:4] += self._num_steps
                sums = {"sum": self._sum[index, start:end], "scatter": self._scatter[index, start:end]}
                tensors = {"sizes": sizes, "weight": self._weights[index], **shapes, **sums}
                accumulator.restore_state(tensors, self._sum.device)
