"""Weight normalization inside recurrent layers: each normalization layer knows the weights of its summed inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models.recurrent.time_step_norms import Norm, TimeStepNorms
from bln_search.norms.analytic.layer import NormalizationFromWeights
from bln_search.norms.analytic.moments import MeanVariance
from bln_search.norms.analytic.propagation_program import PropagationProgram, PropagationStep

INPUT, HIDDEN = "weight_input", "weight_hidden"
"""Names of the weights of a recurrent layer, W_x and W_h."""


@dataclass
class WeightNormMomentRule:
    """Mean 0 and variance ‖w_k‖² of the summed inputs of each unit k.

    Attributes:
        layer: a recurrent layer.
        names: of its weights, whose products are added.
        units: the first and the last unit, excluded; None for all.
    """

    layer: nn.Module
    names: Sequence[str]
    units: tuple[int, int] | None

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return mean and variance of each unit."""
        weights = torch.cat([getattr(self.layer, name) for name in self.names], 1)
        variance: Tensor = weights[slice(*self.units) if self.units else slice(None)].square().sum(1)
        return MeanVariance(torch.zeros_like(variance), variance)


def bind_norms_to_weights(
    norms: TimeStepNorms, layer: nn.Module, *names: str, units: tuple[int, int] | None = None
) -> TimeStepNorms:
    """Bind analytic layers to the weights of a recurrent layer; other normalization layers do not change.

    Args:
        norms: on the products with these weights, or on their sum.
        layer: the recurrent layer.
        names: of the weights.
        units: the first and the last unit of these products, excluded; None for all.

    Returns:
        The norms.

    Raises:
        ModelError: the method is `normprop` or `ap2`.
    """
    for norm in norms.of_step:
        if isinstance(norm, NormalizationFromWeights):
            if not norm.method.description.needs_weights_in_front:
                raise ModelError(
                    f"{norm.method} cannot be propagated through a recurrent layer, whose state is no output of a "
                    "normalization layer: use wn inside cells, or a method whose statistics come from the mini-batch"
                )
            norm.propagation = PropagationProgram([PropagationStep(WeightNormMomentRule(layer, names, units))])
    return norms


class IdentityTimeStepNorms(nn.Module):
    """The identity in place of `TimeStepNorms`."""

    def forward(self, x: Tensor, step: int, present: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return `x`."""
        return x


def makes_analytic_layers(norm: Norm) -> bool:
    """Return whether a factory makes layers whose statistics come from weights."""
    return isinstance(norm(1), NormalizationFromWeights)
