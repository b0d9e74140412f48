"""Mean and deviation by which the output of a linear or convolution layer is scaled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.models.analytic.graph import LinearOrConvolution
from bln_search.norms.analytic.moment_rules import pool_moments_over_positions
from bln_search.norms.analytic.propagation_program import PropagationProgram

MINI_BATCH_EPSILON = 1e-5
"""ε under the root of a deviation over the mini-batch, that of torch's BatchNorm."""


@dataclass(frozen=True)
class LayerScaling:
    """x becomes (x − mean)·gain/deviation; each value of shape (units,)."""

    mean: Tensor
    deviation: Tensor
    gain: Tensor

    @property
    def factor(self) -> Tensor:
        """The factor gain/deviation."""
        return self.gain / self.deviation


ScalingRule = Callable[[LinearOrConvolution, Tensor], LayerScaling]
"""Computes the scaling of a layer, from its output (N, ...) for the mini-batch and its weights."""


def make_mini_batch_scaling_rule(generator: torch.Generator | None) -> ScalingRule:
    """Return the rule by mean and deviation over the mini-batch and all positions.

    Args:
        generator: of gains between 0 and 1; None for gains of 1.
    """

    def scale_by_output(layer: LinearOrConvolution, output: Tensor) -> LayerScaling:
        axis = feature_axis(layer, output.ndim)
        axes = [other for other in range(output.ndim) if other != axis]
        mean = output.mean(axes)
        variance = output.var(axes, correction=0)
        gain = torch.ones_like(mean)
        if generator is not None:
            gain = torch.rand(len(mean), generator=generator, dtype=torch.float64).to(mean)
        return LayerScaling(mean, torch.sqrt(variance + MINI_BATCH_EPSILON), gain)

    return scale_by_output


def make_analytic_scaling_rule(programs: Mapping[nn.Module, PropagationProgram]) -> ScalingRule:
    """Return the rule by mean and deviation that are computed from the weights.

    Args:
        programs: of each layer, to mean and variance of its output.
    """

    def scale_by_weights(layer: LinearOrConvolution, output: Tensor) -> LayerScaling:
        value = programs[layer].compute_moments(training=False)
        pooled = pool_moments_over_positions(value, feature_axis(layer, output.ndim) - 1)
        mean, variance = (part.flatten() for part in pooled)
        if not bool((variance > 0).all()):
            raise ModelError("a unit has only weights of 0, so that its deviation is 0: draw its weights anew")
        return LayerScaling(mean, variance.sqrt(), torch.ones_like(mean))

    return scale_by_weights


def feature_axis(layer: LinearOrConvolution, ndim: int) -> int:
    """Return the axis of the units in an output of `ndim` dimensions."""
    return ndim - 1 if isinstance(layer, nn.Linear) else 1


def reshape_to_broadcast_over_output(value: Tensor, layer: LinearOrConvolution, ndim: int) -> Tensor:
    """Return one value for each unit in the shape that broadcasts against an output of `ndim` dimensions."""
    shape = [1] * ndim
    shape[feature_axis(layer, ndim)] = -1
    return value.view(shape)
