"""A normalization layer that reads population values only, as one affine step.

A layer computes y = γ·( w_B·(x − E_B)/Std_B + w_F·(x − E_F)/Std_F ) + β. Where E_B, Std_B, E_F and Std_F are population
values (or MBN's memory), none of them depends on x. With r_B = w_B/Std_B and r_F = w_F/Std_F

    y = γ·( x·r_B − E_B·r_B + x·r_F − E_F·r_F ) + β
      = x·γ·(r_B + r_F) + β − γ·(E_B·r_B + E_F·r_F)
      = x·scale + shift,    scale = γ·(r_B + r_F),    shift = β − γ·(E_B·r_B + E_F·r_F).

BN, BRN and MBN have the first pair only (w_B = 1, r_F = 0), LN the second (w_F = 1, r_B = 0). Scale and shift have the
shape that γ and the values have together: one number a feature, in the reference reading also one a position.

Not every layer can be folded: a statistic from the mini-batch depends on x, and a population kept one value a slot of
the mini-batch gives every slot a step of its own, whose shape would depend on the mini-batch size.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from bln_search.core.configuration import BATCH_STATISTICS, FEATURE_STATISTICS, Source, Statistic
from bln_search.core.errors import ModelError
from bln_search.norms.layer import Normalization
from bln_search.norms.network_layers import find_norms


class AffineStep(nn.Module):
    """y = x·scale + shift.

    scale, shift: what broadcasts against an input of their number of axes; further axes of the input come behind.
    Input and output: as of the layer that was folded.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, x: Tensor) -> Tensor:
        """The affine step, of the shape of `x`."""
        behind = [1] * (x.ndim - self.scale.ndim)
        scale, shift = (value.view(*value.shape, *behind) for value in (self.scale, self.shift))
        return torch.addcmul(shift, x, scale)


def why_not_folded(layer: Normalization) -> str | None:
    """Why `layer` is not one affine step as it is configured; None where it is."""
    sources = {statistic: layer.configuration.source(statistic) for statistic in layer.method.statistics}
    taken = [statistic.value for statistic, source in sources.items() if source is Source.MINI_BATCH]
    if taken:
        return f"configuration {layer.configuration} takes {', '.join(taken)} from the mini-batch"
    for statistic, source in sources.items():
        value = layer.configured_value(statistic)
        if value is None or not layer.is_configured(statistic, source):
            return f"configuration {layer.configuration} reads {statistic}, which the layer was never given"
        if value.shape[0] != 1:
            return f"the population of {statistic} has one value for each of {value.shape[0]} slots of a mini-batch"
    if layer.batch_size is None and layer.has_batch and layer.has_feature:
        return "its weights follow the mini-batch size at hand; make it with batch_size=m, the training mini-batch size"
    return None


def fold(layer: Normalization) -> AffineStep:
    """The affine step that `layer` computes in evaluation mode, worked out in double precision.

    Raises ModelError where the layer is not one; `why_not_folded` says so beforehand. The layer is left as it is.
    """
    reason = why_not_folded(layer)
    if reason is not None:
        raise ModelError(f"this {layer.method} layer cannot be folded into one affine step: {reason}")
    factors = layer.factors(layer.batch_size or 1)
    ratio = centre = layer.weight.detach().double().new_zeros(())
    ndim = 0
    pairs = (layer.has_batch, BATCH_STATISTICS), (layer.has_feature, FEATURE_STATISTICS)
    for factor, (kept, (mean_of, deviation_of)) in zip(factors, pairs, strict=True):
        if kept:
            mean, part = _double(layer, mean_of), factor / _double(layer, deviation_of)
            ratio, centre, ndim = ratio + part, centre + mean * part, mean.ndim
    shape = layer.axes(ndim).features_shape(layer.num_features)
    weight, bias = (value.detach().double().view(shape) for value in (layer.weight, layer.bias))
    steps = weight * ratio, bias - weight * centre
    return AffineStep(*(step.to(layer.weight.dtype) for step in steps))


def fold_network(network: nn.Module) -> nn.Module:
    """A copy of `network` whose normalization layers are affine steps, for evaluation.

    Raises ModelError, naming the layer, where one cannot be folded.
    """
    folded = deepcopy(network)
    for name, layer in find_norms(folded).items():
        try:
            step = fold(layer)
        except ModelError as error:
            raise ModelError(f"layer {name or type(network).__name__}: {error}") from None
        step.train(layer.training)
        if not name:
            return step
        parent, _, attribute = name.rpartition(".")
        setattr(folded.get_submodule(parent), attribute, step)
    return folded


def _double(layer: Normalization, statistic: Statistic) -> Tensor:
    value = layer.configured_value(statistic)
    assert value is not None
    return value.detach().double()
