"""How each operation of a network changes mean and variance of the values that pass it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional as F

from bln_search.norms.analytic import moments
from bln_search.norms.analytic.moments import MeanVariance

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


class MomentRule(Protocol):
    """Propagates mean and variance through one operation."""

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:
        """Return mean and variance of the output.

        Args:
            arguments: of the operation.
            training: whether dropout is active.
        """
        ...


@dataclass
class LinearRule:
    """x_k = Σ_j w_kj z_j + b_k: E = Σ w_kj μ_j + b_k (Eq. 3a), Var = Σ w_kj² σ_j² (Eq. 3b)."""

    module: nn.Linear

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Propagate values along the last axis."""
        (value,), weight = arguments, self.module.weight
        return MeanVariance(F.linear(value.mean, weight, self.module.bias), F.linear(value.variance, weight.square()))


@dataclass
class ConvolutionRule:
    """As `LinearRule`, on the patch of a position: Var = Σ_c (Σ_jk W_cjk²) σ_c².

    All positions of a channel have the same mean and variance; zero padding at the border is ignored.
    """

    module: Convolution

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Propagate values (C, 1, ...); other positions are pooled first."""
        mean, variance = (part.flatten() for part in pool_moments_over_positions(arguments[0]))
        weight = self.module.weight.flatten(2)
        outputs = (
            self._multiply_by_group(weight.sum(-1), mean),
            self._multiply_by_group(weight.square().sum(-1), variance),
        )
        bias = 0 if self.module.bias is None else self.module.bias
        shape = (-1, *[1] * (self.module.weight.ndim - 2))
        return MeanVariance((outputs[0] + bias).view(shape), outputs[1].view(shape))

    def _multiply_by_group(self, weight: Tensor, value: Tensor) -> Tensor:
        """Return the products of the weights (outputs, inputs / groups) of each group with its channels."""
        groups = self.module.groups
        grouped = weight.view(groups, -1, weight.shape[1]) @ value.view(groups, -1, 1)
        return grouped.flatten()


@dataclass(frozen=True)
class PiecewiseLinearRule:
    """A function with the slope `below` for x < 0 and `above` for x ≥ 0."""

    below: float
    above: float

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Propagate each value."""
        return moments.propagate_piecewise_linear(arguments[0], self.below, self.above)


@dataclass(frozen=True)
class ElementwiseRule:
    """A function of one value or of the sum of two, as in `moments`."""

    function: Callable[..., MeanVariance]

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Propagate each value."""
        return self.function(*arguments)


@dataclass(frozen=True)
class PoolingRule:
    """Average or maximum over `count` positions of each channel, which have the same mean and variance."""

    function: Callable[[MeanVariance, int], MeanVariance]
    count: int

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Propagate values (C, 1, ...); other positions are pooled first."""
        return self.function(pool_moments_over_positions(arguments[0]), self.count)


@dataclass
class DropoutRule:
    """Dropout, active in training."""

    module: nn.Module
    probability: float

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:
        """Propagate each value."""
        is_active = training and self.module.training
        return moments.propagate_dropout(arguments[0], self.probability) if is_active else arguments[0]


@dataclass(frozen=True)
class IdentityRule:
    """An operation that moves or selects positions, all of which are alike."""

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return the value."""
        return arguments[0]


@dataclass(frozen=True)
class ReshapeRule:
    """The values of an example in another shape: of `source`, then of `target`."""

    source: tuple[int, ...]
    target: tuple[int, ...]

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return mean and variance of every unit."""
        return MeanVariance(*(part.expand(self.source).reshape(self.target) for part in arguments[0]))


@dataclass(frozen=True)
class ChannelPaddingRule:
    """Zeros as further channels, before and after the present ones."""

    before: int
    after: int

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return values with further channels on the first axis."""
        padding = [0, 0] * (arguments[0].mean.ndim - 1) + [self.before, self.after]
        return MeanVariance(*(F.pad(part, padding) for part in arguments[0]))


@dataclass
class StandardMomentsRule:
    """A value of mean 0 and variance 1 of `shape`, with the device and the dtype of the weight of `like`."""

    like: nn.Module
    shape: tuple[int, ...]

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return mean 0 and variance 1."""
        weight = self.like.weight
        assert isinstance(weight, Tensor)
        return MeanVariance(weight.new_zeros(self.shape), weight.new_ones(self.shape))


@dataclass(frozen=True)
class ConstantMomentsRule:
    """A value whose mean and variance are given."""

    value: MeanVariance

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return the given mean and variance."""
        return self.value


@dataclass
class NormOutputRule:
    """The output of a normalization layer: mean β, variance γ² (section 2.1), of `shape`."""

    layer: nn.Module
    shape: tuple[int, ...]

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return mean and variance of each channel."""
        gamma, beta = self.layer.weight, self.layer.bias
        assert isinstance(gamma, Tensor)
        assert isinstance(beta, Tensor)
        return MeanVariance(beta.view(self.shape), gamma.square().view(self.shape))


@dataclass
class NetworkInputRule:
    """An example that enters the network, with mean and variance that a layer stores."""

    layer: nn.Module

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Return mean and variance of the example."""
        mean, variance = self.layer.input_mean, self.layer.input_variance
        assert isinstance(mean, Tensor)
        assert isinstance(variance, Tensor)
        return MeanVariance(mean, variance)


@dataclass(frozen=True)
class PositionAverageRule:
    """The average over all `count` positions of each channel, in the shape of the output."""

    count: int
    shape: tuple[int, ...]

    def __call__(self, arguments: Sequence[MeanVariance], *, training: bool) -> MeanVariance:  # noqa: ARG002
        """Propagate values (C, 1, ...); other positions are pooled first."""
        pooled = moments.propagate_average_of_many(pool_moments_over_positions(arguments[0]), self.count)
        return MeanVariance(*(part.view(self.shape) for part in pooled))


def pool_moments_over_positions(value: MeanVariance, feature_axis: int = 0) -> MeanVariance:
    """Return mean and variance of each feature over all its positions, by the law of total variance.

    Args:
        value: of an example's shape; the pooled axes are kept with length 1.
        feature_axis: the axis that is not pooled.
    """
    axes = tuple(axis for axis in range(value.mean.ndim) if axis != feature_axis)
    if all(value.mean.shape[axis] == 1 for axis in axes):
        return value
    mean = value.mean.mean(axes, keepdim=True)
    between = (value.mean - mean).square().mean(axes, keepdim=True)
    return MeanVariance(mean, value.variance.mean(axes, keepdim=True) + between)
