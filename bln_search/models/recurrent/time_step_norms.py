"""Normalization at every time step of a recurrent layer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from bln_search.core.errors import ModelError

Norm = Callable[[int], nn.Module]
"""Makes a normalization layer for a number of features."""


class TimeStepNorms(nn.Module):
    """One normalization layer for each time step, with separate statistics and shared γ and β.

    γ and β are the same Parameter objects in every step, so an optimizer updates them once.

    Args:
        norm: makes a normalization layer for a number of features.
        features: number of features.
        steps: number of time steps.
        gain: initial value of γ; Cooijmans et al. use 0.1 for batch normalization, so that tanh is not saturated.

    Source: Cooijmans, Ballas, Laurent, Gülçehre & Courville 2017, Recurrent Batch Normalization, section 3.
    """

    def __init__(self, norm: Norm, features: int, steps: int, *, gain: float = 1.0) -> None:
        super().__init__()
        if steps < 1:
            raise ModelError(f"normalization inside a recurrent layer needs at least one time step, not {steps}")
        if not 0 < gain < float("inf"):
            raise ModelError(f"the initial gain of a normalization layer must be finite and above 0, not {gain}")
        self.of_step = nn.ModuleList(norm(features) for _ in range(steps))
        shared = dict(self.of_step[0].named_parameters(recurse=False))
        for layer in self.of_step:
            for name, parameter in shared.items():
                setattr(layer, name, parameter)
        if "weight" in shared:
            nn.init.constant_(shared["weight"], gain)

    def forward(self, x: Tensor, step: int) -> Tensor:
        """Normalize `x` (N, features) by the layer of a time step, counted from 0.

        Raises:
            ModelError: there is no layer for this step.
        """
        if not 0 <= step < len(self.of_step):
            raise ModelError(
                f"this layer has statistics for {len(self.of_step)} time steps, none for step {step + 1}: "
                "use shorter sequences, or build the layer for longer ones"
            )
        normalized: Tensor = self.of_step[step](x)
        return normalized
