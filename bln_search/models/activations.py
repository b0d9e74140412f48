"""An activation that torch does not have."""

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
