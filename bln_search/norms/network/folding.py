"""Folding of a normalization layer that uses population values only into one affine step.

A layer computes y = γ·( w_B·(x − E_B)/Std_B + w_F·(x − E_F)/Std_F ) + β. Where E_B, Std_B, E_F and Std_F are population
values (or MBN's memory), none of them depends on x. With r_B = w_B/Std_B and r_F = w_F/Std_F

    y = γ·( x·r_B − E_B·r_B + x·r_F − E_F·r_F ) + β
      = x·γ·(r_B + r_F) + β − γ·(E_B·r_B + E_F·r_F)
      = x·scale + shift,    scale = γ·(r_B + r_F),    shift = β − γ·(E_B·r_B + E_F·r_F).

Without normalization (method `none`) the layer is y = x + β, a shift alone.

BN, BRN and MBN have the first pair only (w_B = 1, r_F = 0), LN the second (w_F = 1, r_B = 0). Scale and shift have the
broadcast shape of γ and the population values: one number for each feature and, with semantics `reference`, for each
position.

Not every layer can be folded: a statistic of the mini-batch depends on x, and a population with one value for each slot
of the mini-batch needs one step for each slot, so that the shape would depend on the mini-batch size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bln_search.core.errors import ModelError
from bln_search.core.method import BATCH_STATISTICS, FEATURE_STATISTICS, Statistic
from bln_search.norms.axes import determine_input_axes
from bln_search.norms.network.copying import copy_network
from bln_search.norms.network.layers import get_norms_by_name
from bln_search.norms.normalization import Normalization
from bln_search.norms.unequal_epsilon import NeverEqualEpsilon


class AffineStep(nn.Module):
    """y = x·scale + shift.

    Attributes:
        scale: broadcasts against the leading axes of the input.
        shift: broadcasts against the leading axes of the input.

    Input and output: as in the folded layer.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    @property
    def eps(self) -> float:
        """A number that equals no other: torch's encoder layers then call this module instead of bypassing it."""
        return NeverEqualEpsilon(0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Return x·scale + shift, of shape and dtype of `x`."""
        trailing = [1] * (x.ndim - self.scale.ndim)
        scale, shift = (value.view(*value.shape, *trailing) for value in (self.scale, self.shift))
        return torch.addcmul(shift, x, scale).to(x.dtype)


class ShiftStep(nn.Module):
    """y = x + β, β along the feature axis of the layer that it replaces.

    Attributes:
        shift: (d,).
        feature_axis: axis of the features; None for axis 1, the last one of a three-dimensional input.

    Input and output: as in the folded layer.
    """

    shift: Tensor

    def __init__(self, shift: Tensor, feature_axis: int | None) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.feature_axis = feature_axis

    @property
    def eps(self) -> float:
        """A number that equals no other, as in `AffineStep`."""
        return NeverEqualEpsilon(0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Return x + β, of shape and dtype of `x`."""
        axes = determine_input_axes(x.ndim, self.feature_axis, pools_positions=True)
        return (x + self.shift.view(axes.broadcast_shape(len(self.shift)))).to(x.dtype)


def find_folding_obstacle(layer: Normalization) -> str | None:
    """Return why `layer` in its configuration is not one affine step; None where it is one."""
    sources = {statistic: layer.configuration.source_of(statistic) for statistic in layer.method.statistics}
    from_batch = [statistic.value for statistic, source in sources.items() if source.reads_mini_batch]
    if from_batch:
        return f"configuration {layer.configuration} takes {', '.join(from_batch)} from the mini-batch"
    for statistic, source in sources.items():
        value = layer.find_configured_value(statistic)
        if value is None or not layer.has_configured_value_from(statistic, source):
            return f"configuration {layer.configuration} uses a population value of {statistic} that the layer lacks"
        if value.shape[0] != 1:
            return f"the population of {statistic} has one value for each of {value.shape[0]} slots of a mini-batch"
    if layer.batch_size is None and layer.has_batch_statistics and layer.has_feature_statistics:
        return (
            "its branch weights depend on the size of each mini-batch; make it with batch_size=m, the training "
            "mini-batch size"
        )
    return None


def make_affine_step(layer: Normalization) -> nn.Module:
    """Return the affine step that `layer` computes in evaluation mode, folded in double precision.

    A layer without normalization becomes a shift by its bias, or the identity where it has none.

    Raises:
        ModelError: the layer is not one affine step; `find_folding_obstacle` tells in advance.
    """
    reason = find_folding_obstacle(layer)
    if reason is not None:
        raise ModelError(f"this {layer.method} layer cannot be folded into one affine step: {reason}")
    if not layer.method.statistics:
        has_bias = layer.bias is not None
        return ShiftStep(layer.bias.detach().clone(), layer.feature_axis) if has_bias else nn.Identity()
    return AffineStep(*(value.to(layer.weight.dtype) for value in fold_in_double(layer)))


def fold_in_double(layer: Normalization) -> tuple[Tensor, Tensor]:
    """Return scale and shift of a layer that is one affine step, in double precision and the shape of its values."""
    branch_weights = layer.branch_weights(layer.batch_size or 1)
    total_scale = total_centre = layer.weight.detach().double().new_zeros(())
    ndim = 0
    pairs = (layer.has_batch_statistics, BATCH_STATISTICS), (layer.has_feature_statistics, FEATURE_STATISTICS)
    for branch_weight, (is_present, (mean_statistic, deviation_statistic)) in zip(branch_weights, pairs, strict=True):
        if is_present:
            mean, scale = (
                _configured_value_in_double(layer, mean_statistic),
                branch_weight / _configured_value_in_double(layer, deviation_statistic),
            )
            total_scale, total_centre, ndim = total_scale + scale, total_centre + mean * scale, mean.ndim
    shape = layer.broadcast_parameter_shape(ndim)
    gamma, beta = (value.detach().double().view(shape) for value in (layer.weight, layer.bias))
    return gamma * total_scale, beta - gamma * total_centre


def copy_with_affine_steps(network: nn.Module) -> nn.Module:
    """Return a copy of `network` with affine steps in place of its normalization layers, for evaluation.

    Raises:
        ModelError: a layer cannot be folded; the message names it.
    """
    folded = copy_network(network)
    for name, layer in get_norms_by_name(folded).items():
        try:
            step = make_affine_step(layer)
        except ModelError as error:
            raise ModelError(f"layer {name or type(network).__name__}: {error}") from None
        step.train(layer.training)
        if not name:
            return step
        parent, _, attribute = name.rpartition(".")
        setattr(folded.get_submodule(parent), attribute, step)
    return folded


def _configured_value_in_double(layer: Normalization, statistic: Statistic) -> Tensor:
    value = layer.find_configured_value(statistic)
    assert value is not None
    return value.detach().double()
