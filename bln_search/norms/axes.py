"""Which axis holds samples, which features, which positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from bln_search.core.errors import ModelError


@dataclass(frozen=True)
class Axes:
    """Axes of an input of `ndim` dimensions whose first axis holds samples and whose axis `feature` holds features."""

    ndim: int
    feature: int
    pools_positions: bool

    @property
    def batch(self) -> tuple[int, ...]:
        """The axes a mini-batch statistic is averaged over."""
        if not self.pools_positions:
            return (0,)
        return tuple(axis for axis in range(self.ndim) if axis != self.feature)

    @property
    def slots(self) -> tuple[int, ...]:
        """The axes a feature statistic is pooled over for its population value."""
        return self.batch

    def features_shape(self, num_features: int) -> tuple[int, ...]:
        """The shape in which a vector over features multiplies an input."""
        return tuple(num_features if axis == self.feature else 1 for axis in range(self.ndim))


@lru_cache(maxsize=256)
def find_axes(ndim: int, feature_axis: int | None, *, pools_positions: bool) -> Axes:
    """The axes of an input; features stand at axis 1, in (N, T, D) last, unless `feature_axis` says otherwise."""
    if ndim not in (2, 3, 4):
        raise ModelError(
            f"a normalization layer takes inputs (N, D), (N, T, D) or (N, C, H, W), not one of {ndim} dimensions"
        )
    feature = feature_axis if feature_axis is not None else (2 if ndim == 3 else 1)
    return Axes(ndim, feature % ndim, pools_positions)


def check_features(x: Tensor, axes: Axes, num_features: int) -> None:
    """Raise ModelError unless the feature axis of `x` has `num_features` entries."""
    found = x.shape[axes.feature]
    if found != num_features:
        raise ModelError(
            f"this layer normalizes {num_features} features, its input of shape {tuple(x.shape)} has {found} "
            f"at axis {axes.feature}; give the layer num_features={found} or another feature_axis"
        )
