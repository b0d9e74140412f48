"""The shape of an input as the fused kernels read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from bln_search.norms.axes import InputAxes


@dataclass(frozen=True)
class FusedLayout:
    """A contiguous input as (outer, channels, inner).

    Attributes:
        outer: Product of the lengths of the axes before the feature axis.
        channels: Length of the feature axis.
        inner: Product of the lengths of the axes behind the feature axis.
        whole_layer: Feature statistics are over channels and inner values; otherwise over channels.
    """

    outer: int
    channels: int
    inner: int
    whole_layer: bool

    @classmethod
    def from_numbers(cls, numbers: Sequence[int]) -> FusedLayout:
        """Return the layout whose `as_numbers` these are."""
        outer, channels, inner, whole_layer = numbers
        return cls(outer, channels, inner, bool(whole_layer))

    @property
    def as_numbers(self) -> list[int]:
        """The fields as numbers, the arguments of an operator of torch."""
        return [self.outer, self.channels, self.inner, int(self.whole_layer)]

    @property
    def num_values_of_channel(self) -> int:
        """Number of values that a mini-batch statistic is averaged over."""
        return self.outer * self.inner

    @property
    def num_groups(self) -> int:
        """Number of values of a feature statistic."""
        return self.outer if self.whole_layer else self.outer * self.inner

    @property
    def group_size(self) -> int:
        """Number of values that a feature statistic is averaged over."""
        return self.channels * self.inner if self.whole_layer else self.channels

    @property
    def shape(self) -> tuple[int, int, int]:
        """(outer, channels, inner)."""
        return self.outer, self.channels, self.inner

    @property
    def group_shape(self) -> tuple[int, int, int]:
        """The shape in which feature statistics broadcast against `shape`."""
        return self.outer, 1, 1 if self.whole_layer else self.inner


def make_fused_layout(shape: torch.Size, axes: InputAxes) -> FusedLayout | None:
    """Return the layout of an input of `shape` (N, ...); None where the fused kernels do not have its statistics.

    They have mini-batch statistics over all axes but the feature axis, and feature statistics over the feature axis, or
    over all axes but the first.
    """
    feature, others = axes.feature, tuple(axis for axis in range(axes.ndim) if axis != axes.feature)
    is_position = axes.feature_reduction_axes == (feature,)
    is_whole_layer = feature == 1 and axes.feature_reduction_axes == tuple(range(1, axes.ndim))
    if axes.batch_reduction_axes != others or not (is_position or is_whole_layer):
        return None
    return FusedLayout(prod(shape[:feature]), shape[feature], prod(shape[feature + 1 :]), not is_position)
