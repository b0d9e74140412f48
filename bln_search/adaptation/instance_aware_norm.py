"""Instance-aware batch normalization (IABN) of NOTE."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from bln_search.core.configuration import InferenceConfiguration
from bln_search.core.errors import ModelError
from bln_search.core.method import BATCH_STATISTICS, Method
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.normalization import Normalization

_POPULATION = InferenceConfiguration("TT--")


class InstanceAwareBatchNorm(nn.Module):
    """Normalizes each channel of an example by population statistics, which its own correct where they differ clearly.

    With the statistics μ̃, σ̃² of a channel over the L positions of one example (divided by L − 1), those of the
    population μ̄, σ̄², and ψ(x; λ) = sign(x)·max(|x| − λ, 0):

        μ = μ̄ + ψ(μ̃ − μ̄; k·√(σ̄²/L)),    σ² = max(0, σ̄² + ψ(σ̃² − σ̄²; k·σ̄²·√(2/(L − 1)))),
        y = γ·(x − μ)/√(σ² + ε) + β.

    The standard errors have σ̄² + ε for σ̄², as in the authors' code. With one position, μ̄ and σ̄² alone count.
    While `uses_mini_batch`, μ̄ and σ̄² are those of the mini-batch, with gradient, and the population moves towards them.

    Source: Gong et al. 2022, NOTE: Robust continual test-time adaptation against temporal correlation, section 3.1.

    Args:
        layer: A batch normalization layer with population statistics, whose γ and β are used.
        shrinkage: k.
        momentum: Weight of a mini-batch in the population.
    """

    mean: Tensor
    """μ̄ of each channel (C,)."""
    variance: Tensor
    """σ̄² of each channel (C,)."""

    def __init__(self, layer: Normalization, shrinkage: float, momentum: float) -> None:
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        self.shrinkage, self.momentum = shrinkage, momentum
        self.epsilon, self.input_axes = layer.formula_variant.epsilon, layer.input_axes
        self.uses_mini_batch = False
        mean, deviation = (layer.find_configured_value(statistic) for statistic in BATCH_STATISTICS)
        assert mean is not None
        assert deviation is not None
        self.register_buffer("mean", mean.reshape(-1).clone())
        self.register_buffer("variance", (deviation.reshape(-1).square() - self.epsilon).clamp_min(0))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize `x` (N, C) or (N, C, ...)."""
        axes = self.input_axes(x.ndim)
        shape = axes.broadcast_shape(len(self.mean))
        mean, variance = self.mean.view(shape), self.variance.view(shape)
        if self.uses_mini_batch:
            variance, mean = torch.var_mean(x, axes.batch_reduction_axes, keepdim=True)
            self._move_population(mean, variance)
        positions = tuple(axis for axis in axes.batch_reduction_axes if axis)
        count = math.prod(x.shape[axis] for axis in positions)
        if count > 1:
            own_variance, own_mean = torch.var_mean(x, positions, keepdim=True)
            squared = variance + self.epsilon
            mean = mean + _shrink(own_mean - mean, self.shrinkage * (squared / count).sqrt())
            limit = self.shrinkage * squared * math.sqrt(2 / (count - 1))
            variance = (variance + _shrink(own_variance - variance, limit)).clamp_min(0)
        normalized = (x - mean) / (variance + self.epsilon).sqrt()
        return normalized * self.weight.view(shape) + self.bias.view(shape)

    @torch.no_grad()
    def _move_population(self, mean: Tensor, variance: Tensor) -> None:
        self.mean.lerp_(mean.reshape(-1), self.momentum)
        self.variance.lerp_(variance.reshape(-1), self.momentum)


def _shrink(x: Tensor, limit: Tensor) -> Tensor:
    """Return ψ(x; λ)."""
    return x.sign() * (x.abs() - limit).clamp_min(0)


def replace_by_instance_aware_norms(
    network: nn.Module, shrinkage: float, momentum: float
) -> list[InstanceAwareBatchNorm]:
    """Replace each batch normalization of `network`; return the new layers.

    Raises:
        ModelError: A normalization layer is not BN, or does not take its statistics from the population.
    """
    new: dict[nn.Module, InstanceAwareBatchNorm] = {}
    for name, layer in get_norms_by_name(network).items():
        if layer.method is not Method.BN:
            raise ModelError(
                f"note replaces batch normalization, and the layer {name} is {layer.method}: choose another method, "
                "or a network whose normalization layers are all BN"
            )
        if layer.configuration != _POPULATION:
            raise ModelError(
                f"note starts from the statistics of the population, and the layer {name} has the configuration "
                f"{layer.configuration}: use the configuration T for this arm"
            )
        new[layer] = InstanceAwareBatchNorm(layer, shrinkage, momentum)
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if module in new:
            network.set_submodule(name, new[module])
    return list(new.values())
