"""Activations that torch does not have."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SlopedReLU(nn.Module):
    """max(0, x) + c·x: the slope c for x < 0 and 1 + c for x ≥ 0, unlike the leaky ReLU's c and 1.

    Args:
        slope: c.

    Input and output: of any shape. Source: Shekhovtsov & Flach 2018, section 5, with c = 0.03.
    """

    def __init__(self, slope: float = 0.03) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        """Return max(0, x) + c·x."""
        return torch.relu(x) + self.slope * x

    def extra_repr(self) -> str:
        """Return the slope."""
        return f"slope={self.slope}"


class MaxOut(nn.Module):
    """The maximum of each group of `pieces` consecutive channels.

    Args:
        pieces: number of channels in a group.

    Input (N, C, ...), C a multiple of `pieces`; output (N, C / pieces, ...).
    Source: Goodfellow et al. 2013, Maxout Networks.
    """

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces

    def forward(self, x: Tensor) -> Tensor:
        """Return the maxima."""
        return x.view(x.shape[0], -1, self.pieces, *x.shape[2:]).amax(2)

    def extra_repr(self) -> str:
        """Return the number of pieces."""
        return f"pieces={self.pieces}"
