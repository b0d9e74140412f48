"""Normalization at every time step of a recurrent layer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from bln_search.core.errors import ModelError

Norm = Callable[[int], nn.Module]
"""Makes a normalization layer for a number of features."""


class StepNorms(nn.Module):
    """One normalization layer for each time step; all have the same γ and β, each has statistics of its own.

    norm: makes one. gain: what γ starts at; Cooijmans et al. take 0.1 for batch normalization, so that tanh is not
    saturated. γ and β are the same Parameter objects in every step, which an optimizer sees once.
    Source: Cooijmans, Ballas, Laurent, Gülçehre & Courville 2017, Recurrent Batch Normalization, section 3.
    """

    def __init__(self, norm: Norm, features: int, steps: int, *, gain: float = 1.0) -> None:
        super().__init__()
        if steps < 1:
            raise ModelError(f"normalization inside a recurrent layer needs at least one time step, not {steps}")
        if not 0 < gain < float("inf"):
            raise ModelError(f"the initial gain of a normalization layer is a number above 0, not {gain}")
        self.of_step = nn.ModuleList(norm(features) for _ in range(steps))
        shared = dict(self.of_step[0].named_parameters(recurse=False))
        for layer in self.of_step:
            for name, parameter in shared.items():
                setattr(layer, name, parameter)
        if "weight" in shared:
            nn.init.constant_(shared["weight"], gain)

    def forward(self, x: Tensor, step: int) -> Tensor:
        """`x` (N, features) normalized as at that step, counted from 0. Raises ModelError for a step never built."""
        if not 0 <= step < len(self.of_step):
            raise ModelError(
                f"this layer has statistics for {len(self.of_step)} time steps, the input has a step {step + 1}: "
                "give it shorter sequences, or build it for longer ones"
            )
        normalized: Tensor = self.of_step[step](x)
        return normalized
