"""Moments of the inputs of a network in each channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bln_search.api.check.layers import Moments
from bln_search.data.inputs import Inputs


@dataclass
class InputMoments:
    """Mean and variance of inputs in each channel, over examples and positions; of inputs that are one tensor."""

    count: int = 0
    total: NDArray[np.float64] | None = None
    squares: NDArray[np.float64] | None = None

    def add(self, inputs: Inputs) -> None:
        """Count the inputs of a mini-batch (N, C, ...), or (N, F), whose features count as one channel."""
        if not isinstance(inputs, Tensor) or not inputs.is_floating_point() or inputs.ndim < 2:
            return
        channels = inputs.shape[1] if inputs.ndim > 2 else 1
        values = inputs.detach().double().reshape(len(inputs), channels, -1).transpose(0, 1).reshape(channels, -1)
        total, squares = values.sum(1).cpu().numpy(), values.square().sum(1).cpu().numpy()
        if self.total is not None and self.squares is not None and self.total.shape == total.shape:
            total, squares = self.total + total, self.squares + squares
        self.total, self.squares, self.count = total, squares, self.count + values.shape[1]

    @property
    def moments(self) -> Moments | None:
        """The moments; None without such inputs."""
        if self.total is None or self.squares is None:
            return None
        mean = self.total / self.count
        return Moments(mean, np.maximum(self.squares / self.count - mean**2, 0.0))
