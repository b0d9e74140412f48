"""The statistics of a training step, as the layers record them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bln_search.norms.axes import InputAxes
from bln_search.norms.fused.torch_kernels import BatchStatisticIndex


@dataclass(frozen=True)
class FusedStatistics:
    """What the fused kernels return beside the output.

    Attributes:
        batch: Statistics of the mini-batch branch, see `BatchStatisticIndex`; empty without this branch.
        feature: Mean and variance of the feature branch, (2, groups); empty without this branch.
        epsilon: ε under the root of the deviations.
    """

    batch: Tensor
    feature: Tensor
    epsilon: float

    def list_statistics(self, shape: torch.Size, axes: InputAxes) -> list[Tensor]:
        """Return mean, deviation and variance of each branch, in shapes that broadcast against an input of `shape`."""
        statistics: list[Tensor] = []
        if self.batch.numel():
            kept = axes.broadcast_shape(self.batch.shape[1])
            statistics += self._triple(
                self.batch[BatchStatisticIndex.MEAN], self.batch[BatchStatisticIndex.VARIANCE], kept
            )
        if self.feature.numel():
            reduced = axes.feature_reduction_axes
            kept = tuple(1 if axis in reduced else shape[axis] for axis in range(axes.ndim))
            statistics += self._triple(self.feature[0], self.feature[1], kept)
        return statistics

    def _triple(self, mean: Tensor, variance: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
        return [mean.view(shape), torch.sqrt(variance + self.epsilon).view(shape), variance.view(shape)]
