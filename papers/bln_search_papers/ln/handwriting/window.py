"""A soft window over a text: a mixture of Gaussians that moves from its first character to its last.

Source: Graves 2013, Generating Sequences With Recurrent Neural Networks, section 5.1, Eq. 46-51.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_LARGEST_EXPONENT = 10.0
"""Limit of the outputs whose exponentials are taken, so that distances stay finite."""


class SoftWindow(nn.Module):
    """Reads a text at places that only move forwards.

        (α̂_t, β̂_t, κ̂_t) = W h_t + b,    α_t = exp(α̂_t),    β_t = exp(β̂_t)
        κ_t = κ_{t-1} + s·exp(κ̂_t),    φ(t, u) = Σ_k α_t^k exp(−β_t^k (κ_t^k − u)²),    w_t = Σ_u φ(t, u) c_u

    with u = 1 … U. The step s is no part of the source. With U / T, windows with weights of zero pass over the text
    once in a track of T points.

    Args:
        units: number of features of h_t.
        gaussians: number K of Gaussians.
        step: s, above 0.
    """

    def __init__(self, units: int, gaussians: int, step: float) -> None:
        super().__init__()
        self.gaussians, self.step = gaussians, step
        self.parameters_of_gaussians = nn.Linear(units, 3 * gaussians)

    def initial_places(self, h: Tensor) -> Tensor:
        """Return κ_0 (N, K), zeros, for the examples of `h` (N, ...)."""
        return h.new_zeros(h.shape[0], self.gaussians)

    def forward(self, h: Tensor, places: Tensor, characters: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the window reads and its places.

        Args:
            h: h_t, (N, units).
            places: κ_{t-1}, (N, K).
            characters: c_1 … c_U, (N, U, features).

        Returns:
            w_t (N, features) and κ_t (N, K).
        """
        weights, places = self.weigh_characters_and_move_window(h, places, characters.shape[1])
        return (weights.unsqueeze(2) * characters).sum(1), places

    def weigh_characters_and_move_window(self, h: Tensor, places: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Return φ(t, u) for u = 1 … number, (N, number), and κ_t (N, K)."""
        outputs = self.parameters_of_gaussians(h).clamp(max=_LARGEST_EXPONENT)
        log_weights, log_widths, log_steps = outputs.chunk(3, 1)
        places = places + (log_steps + math.log(self.step)).exp()
        positions = torch.arange(1, number + 1, dtype=h.dtype, device=h.device)
        distances = (places.unsqueeze(2) - positions).square()
        exponents = log_weights.unsqueeze(2) - log_widths.exp().unsqueeze(2) * distances
        return exponents.exp().sum(1), places
