"""A mean over the steps of training whose weights fall with age."""

from __future__ import annotations

import torch
from torch import Tensor

DECAY_PER_EPOCH = 0.1
"""Factor by which the weight of a mini-batch falls in an epoch."""


class RecencyWeightedMean:
    """Mean of values with the weights q^age, divided by their sum.

    Args:
        steps_per_epoch: Steps in which a weight falls by `DECAY_PER_EPOCH`.
    """

    def __init__(self, steps_per_epoch: int) -> None:
        self._decay: float = DECAY_PER_EPOCH ** (1 / steps_per_epoch)
        self._weighted_sum: Tensor | None = None
        self._steps = 0

    def add(self, value: Tensor) -> None:
        """Add the value of a step, a scalar; it stays on its device."""
        value = value.detach().to(torch.float64, copy=True)
        self._weighted_sum = value if self._weighted_sum is None else self._weighted_sum.mul_(self._decay).add_(value)
        self._steps += 1

    @property
    def state(self) -> tuple[int, Tensor | None]:
        """The number of steps and the weighted sum, None before the first step. It can be set to an earlier state."""
        return self._steps, self._weighted_sum

    @state.setter
    def state(self, value: tuple[int, Tensor | None]) -> None:
        self._steps, self._weighted_sum = value

    @property
    def mean(self) -> float:
        """The mean. Raises ValueError before the first step."""
        if self._weighted_sum is None:
            raise ValueError("there is no mean of no steps")
        return float(self._weighted_sum) * (1 - self._decay) / (1 - self._decay**self._steps)
