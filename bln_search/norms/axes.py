"""Sample, feature and position axes of an input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from torch import Tensor

from bln_search.core.enums import NormalizedAxes
from bln_search.core.errors import ModelError


@dataclass(frozen=True)
class InputAxes:
    """Axes of an input: samples on axis 0, features on one axis, positions on the others.

    Attributes:
        ndim: number of axes.
        feature: the feature axis.
        pools_positions: mini-batch statistics are averaged over positions too.
    """

    ndim: int
    feature: int
    pools_positions: bool

    @property
    def batch_reduction_axes(self) -> tuple[int, ...]:
        """The axes over which a mini-batch statistic is averaged."""
        if not self.pools_positions:
            return (0,)
        return tuple(axis for axis in range(self.ndim) if axis != self.feature)

    @property
    def feature_reduction_axes(self) -> tuple[int, ...]:
        """The axes over which a feature statistic is averaged."""
        return (self.feature,)

    @property
    def population_pooling_axes(self) -> tuple[int, ...]:
        """The axes over which a feature statistic is pooled for its population value."""
        return self.batch_reduction_axes

    def broadcast_shape(self, num_features: int) -> tuple[int, ...]:
        """Return the shape in which a vector over features broadcasts against an input."""
        return tuple(num_features if axis == self.feature else 1 for axis in range(self.ndim))

    def num_values_per_feature(self, shape: Sequence[int]) -> int:
        """Return the number of values of one feature in an input of `shape`."""
        return prod(shape) // shape[self.feature]


@dataclass(frozen=True)
class WholeLayerInputAxes(InputAxes):
    """Axes of statistics over the whole layer: the feature statistics of an example are over features and positions.

    The positions of a sequence (N, T, D) with features last are time steps. They stay apart: the layer of a time step
    has D units (Ba, Kiros & Hinton 2016, Eq. 4).
    """

    @property
    def feature_reduction_axes(self) -> tuple[int, ...]:
        """The axes of one example; the feature axis for sequences."""
        return (self.feature,) if are_axes_of_sequence(self) else tuple(range(1, self.ndim))


@dataclass(frozen=True)
class InstanceNormInputAxes(InputAxes):
    """Axes of instance normalization: the feature statistics of an example are over positions, one for each channel."""

    @property
    def feature_reduction_axes(self) -> tuple[int, ...]:
        """The axes of the positions."""
        return tuple(axis for axis in range(1, self.ndim) if axis != self.feature)

    @property
    def population_pooling_axes(self) -> tuple[int, ...]:
        """The axis of the examples."""
        return (0,)


@dataclass(frozen=True)
class StackedInputAxes(InputAxes):
    """Axes of the inputs of several networks, (N, K, ...): axis 1 holds the networks, which have separate statistics.

    Attributes:
        single: axes of the input of one network.
        num_networks: K.
    """

    single: InputAxes
    num_networks: int

    @classmethod
    def from_single(cls, single: InputAxes, num_networks: int) -> StackedInputAxes:
        """Return the axes of the inputs of K networks, from those of one."""
        return cls(
            single.ndim + 1, _shift_behind_networks(single.feature), single.pools_positions, single, num_networks
        )

    @property
    def batch_reduction_axes(self) -> tuple[int, ...]:
        """The axes of one network, one further back."""
        return tuple(_shift_behind_networks(axis) for axis in self.single.batch_reduction_axes)

    @property
    def feature_reduction_axes(self) -> tuple[int, ...]:
        """The axes of one network, one further back."""
        return tuple(_shift_behind_networks(axis) for axis in self.single.feature_reduction_axes)

    def broadcast_shape(self, num_features: int) -> tuple[int, ...]:
        """Return the shape in which K vectors over features (K, d) broadcast against an input."""
        first, *others = self.single.broadcast_shape(num_features)
        return (first, self.num_networks, *others)

    def num_values_per_feature(self, shape: Sequence[int]) -> int:
        """Return the number of values of one feature of one network in an input of `shape`."""
        return super().num_values_per_feature(shape) // self.num_networks


def _shift_behind_networks(axis: int) -> int:
    return axis + 1 if axis else 0


@lru_cache(maxsize=256)
def determine_input_axes(
    ndim: int,
    feature_axis: int | None,
    *,
    pools_positions: bool,
    normalized_axes: NormalizedAxes = NormalizedAxes.POSITION,
    num_networks: int | None = None,
) -> InputAxes:
    """Return the axes of an input: features on axis 1, in (N, T, D) on the last one, unless `feature_axis` is given.

    Args:
        ndim: number of axes.
        feature_axis: the feature axis; None for the usual one.
        pools_positions: mini-batch statistics are averaged over positions too.
        normalized_axes: over which feature statistics are averaged.
        num_networks: K, where axis 1 holds K networks and the other axes are those of one network; None without it.

    Raises:
        ModelError: the input has fewer than 2 dimensions; or more than 5, and `feature_axis` is not given.
    """
    if num_networks is not None:
        single = determine_input_axes(
            ndim - 1, feature_axis, pools_positions=pools_positions, normalized_axes=normalized_axes
        )
        return StackedInputAxes.from_single(single, num_networks)
    if ndim < 2 or (ndim > 5 and feature_axis is None):
        raise ModelError(
            "a normalization layer takes inputs (N, D), (N, T, D), (N, C, H, W) or (N, C, D, H, W), not one of "
            f"{ndim} dimensions"
        )
    feature = feature_axis if feature_axis is not None else (2 if ndim == 3 else 1)
    kind = WholeLayerInputAxes if normalized_axes is NormalizedAxes.LAYER else InputAxes
    return kind(ndim, feature % ndim, pools_positions)


def are_axes_of_sequence(axes: InputAxes) -> bool:
    """Return whether an input is (N, T, D): its positions are time steps."""
    return axes.ndim == 3 and axes.feature == 2


def check_num_features(x: Tensor, axes: InputAxes, num_features: int) -> None:
    """Raise ModelError unless the feature axis of `x` has `num_features` entries."""
    size = x.shape[axes.feature]
    if size != num_features:
        raise ModelError(
            f"this layer normalizes {num_features} features, its input of shape {tuple(x.shape)} has {size} "
            f"on axis {axes.feature}: give the layer num_features={size} or another feature_axis"
        )
