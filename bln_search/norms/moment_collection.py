"""Collection of normalization statistics over mini-batches, from which population values are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.norms.statistics import StatisticMoments


@dataclass(frozen=True)
class LayerMoments:
    """Moments of the statistics of one layer over mini-batches.

    Attributes:
        batch: moments of the mini-batch statistics; None where the method has none.
        feature: moments of the feature statistics, one value for each slot of the mini-batch (first axis of the input).
        batch_size: the mini-batch size m.
        values_per_batch: the number of values averaged in one mini-batch mean.
        prior_values: the number of values for which they count beside those of a further mini-batch; None where the
            estimate has no such weight.
    """

    batch: StatisticMoments | None
    feature: StatisticMoments | None
    batch_size: int
    values_per_batch: int
    prior_values: float | None = None


class MomentAccumulator:
    """Accumulates the mini-batch statistics of one layer in float64: their mean or their exponential moving average.

    The moving average with decay δ gives the i-th last mini-batch the weight δ^i and divides by the sum of the weights.
    The variance over mini-batches is updated around the current mean (West 1979), which avoids cancellation where means
    are far from zero. Mini-batches smaller than the largest are excluded: their statistics differ. With
    `includes_all_sizes` they are not, and feature statistics, which then differ in their number, are pooled over the
    first axis of each mini-batch.

    Args:
        decay: δ of the moving average; None for the mean over all mini-batches.
        in_evaluation: accumulate forward passes in evaluation mode too, not only training steps.

    Attributes:
        batches_seen: number of mini-batches passed to `update`.
        batches_included: number of mini-batches in the averages.
        includes_all_sizes: the first axis does not hold the examples of the mini-batch, as with the nodes of graphs.
            The sizes in `moments` are then means over the mini-batches.
        weighs_by_size: mini-batches are weighted by their sizes. With n the mean size, n/(n-1)·E[σ²] is then unbiased
            for mini-batches of any sizes, up to the rounding of n.
    """

    def __init__(self, decay: float | None = None, *, in_evaluation: bool = False) -> None:
        self.decay = decay
        self.in_evaluation = in_evaluation
        self.name = ""
        self.batch_size = 0
        self.values_per_batch = 0
        self.batches_seen = 0
        self.batches_included = 0
        self.includes_all_sizes = False
        self.weighs_by_size = False
        self._sizes_sum = [0, 0]
        self._weight = 0.0
        self._sum: Tensor | None = None
        self._scatter: Tensor | None = None
        self._shapes: list[torch.Size] = []

    def update(self, statistics: list[Tensor], batch_size: int, values_per_batch: int) -> None:
        """Accumulate (mean, deviation, variance) of each pair, detached.

        Raises:
            ModelError: the shape of a statistic differs from that of an earlier mini-batch.
        """
        self.batches_seen += 1
        weight = batch_size if self.weighs_by_size else 1
        if self.includes_all_sizes:
            statistics, variances_inside = _means_and_variances_over_slots(statistics)
            self._sizes_sum = [self._sizes_sum[0] + batch_size, self._sizes_sum[1] + values_per_batch]
            batch_size, values_per_batch = (round(total / self.batches_seen) for total in self._sizes_sum)
        elif batch_size < self.batch_size:
            return
        vector = _flatten_to_double(statistics)
        shapes = [value.shape for value in statistics]
        total, scatter = self._prepare_sums(vector, shapes, batch_size, values_per_batch)
        keep, add = (1.0, 1.0) if self.decay is None else (self.decay, 1.0 - self.decay)
        add *= weight
        old_weight = self._weight * keep
        if old_weight > 0:
            distance = vector - total / self._weight
            scatter.mul_(keep).addcmul_(distance, distance, value=add * old_weight / (old_weight + add))
        if self.includes_all_sizes:
            self.batch_size, self.values_per_batch = batch_size, values_per_batch
            scatter.add_(_flatten_to_double(variances_inside), alpha=add)
        self.batches_included += 1
        self._weight = old_weight + add
        total.mul_(keep).add_(vector, alpha=add)

    def update_with_several(self, statistics: list[Tensor], batch_size: int, values_per_batch: int) -> None:
        """Accumulate the statistics (G, ...) of G mini-batches in a mean: as `update` for each, up to rounding.

        The scatter of two sets is that of Chan, Golub & LeVeque 1979: the sum of both and W·G/(W+G) times the squared
        distance of their means.

        Raises:
            ModelError: the shape of a statistic differs from that of an earlier mini-batch.
        """
        assert self.decay is None
        assert not self.includes_all_sizes
        assert not self.weighs_by_size
        count = len(statistics[0])
        self.batches_seen += count
        if batch_size < self.batch_size:
            return
        vectors = torch.cat([value.detach().flatten(1) for value in statistics], 1).double()
        mean = vectors.mean(0)
        shapes = [value.shape[1:] for value in statistics]
        total, scatter = self._prepare_sums(mean, shapes, batch_size, values_per_batch)
        if self._weight > 0:
            distance = mean - total / self._weight
            factor = count * self._weight / (self._weight + count)
            scatter.addcmul_(distance, distance, value=factor)
        scatter.add_((vectors - mean).square_().sum(0))
        self.batches_included += count
        self._weight += count
        total.add_(mean, alpha=count)

    def _prepare_sums(
        self, vector: Tensor, shapes: list[torch.Size], batch_size: int, values_per_batch: int
    ) -> tuple[Tensor, Tensor]:
        """Return sum and scatter of the mini-batches so far, empty ones for the first and for a larger mini-batch.

        Raises:
            ModelError: the shape of a statistic differs from that of an earlier mini-batch.
        """
        is_larger = batch_size > self.batch_size and not self.includes_all_sizes
        if self._sum is None or self._scatter is None or is_larger:
            self.batch_size, self.values_per_batch, self._shapes = batch_size, values_per_batch, shapes
            self._weight, self.batches_included = 0.0, 0
            self._sum, self._scatter = torch.zeros_like(vector), torch.zeros_like(vector)
        if shapes != self._shapes:
            new_shape, old_shape = next((new, old) for new, old in zip(shapes, self._shapes, strict=True) if new != old)
            raise ModelError(
                f"the normalization layer {self.name or '(without a name)'} got a statistic of shape "
                f"{tuple(new_shape)} after one of shape {tuple(old_shape)}: population values need inputs of one "
                "shape; pad sequences to one length, and use a separate layer for each image size"
            )
        return self._sum, self._scatter

    @property
    def is_empty(self) -> bool:
        """Whether no mini-batch has been accumulated yet."""
        return self._weight == 0.0

    def state_tensors(self) -> dict[str, Tensor]:
        """Return what was accumulated as named tensors, for `restore_state`; the arguments are not included."""
        sizes = [self.batch_size, self.values_per_batch, self.batches_seen, self.batches_included, *self._sizes_sum]
        flags = [int(self.includes_all_sizes), int(self.weighs_by_size)]
        tensors = {
            "sizes": torch.tensor([*sizes, *flags]),
            "weight": torch.tensor(self._weight, dtype=torch.float64),
            **{f"shape{index}": torch.tensor(shape, dtype=torch.int64) for index, shape in enumerate(self._shapes)},
        }
        if self._sum is not None and self._scatter is not None:
            tensors |= {"sum": self._sum, "scatter": self._scatter}
        return tensors

    def restore_state(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Restore what `state_tensors` returned, with sums on `device`."""
        *sizes, all_sizes, weighs = tensors["sizes"].tolist()
        self.batch_size, self.values_per_batch, self.batches_seen, self.batches_included = sizes[:4]
        self._sizes_sum = sizes[4:]
        self.includes_all_sizes, self.weighs_by_size = bool(all_sizes), bool(weighs)
        self._weight = float(tensors["weight"])
        shapes = (tensors[f"shape{index}"] for index in range(len(tensors)) if f"shape{index}" in tensors)
        self._shapes = [torch.Size(shape.tolist()) for shape in shapes]
        self._sum = self._scatter = None
        if "sum" in tensors:
            self._sum, self._scatter = (tensors[name].to(device, copy=True) for name in ("sum", "scatter"))

    def averaged_moments(self, *, has_batch_statistics: bool, has_feature_statistics: bool) -> LayerMoments:
        """Return the averages over the mini-batches accumulated so far."""
        assert self._sum is not None
        assert self._scatter is not None
        ends = [0]
        for shape in self._shapes:
            ends.append(ends[-1] + shape.numel())
        flat_means, flat_variances = self._sum / self._weight, self._scatter / self._weight
        spans = list(zip(pairwise(ends), self._shapes, strict=True))
        means = [flat_means[start:end].view(shape) for (start, end), shape in spans]
        variances = [flat_variances[start:end].view(shape) for (start, end), shape in spans]
        pairs = [
            StatisticMoments(
                mean=means[i], variance_of_mean=variances[i], deviation=means[i + 1], variance=means[i + 2]
            )
            for i in range(0, len(means), 3)
        ]
        batch = pairs.pop(0) if has_batch_statistics else None
        feature = pairs.pop(0) if has_feature_statistics else None
        return LayerMoments(batch, feature, self.batch_size, self.values_per_batch)


def _flatten_to_double(statistics: list[Tensor]) -> Tensor:
    """One vector of all values, in double precision."""
    return torch.cat([value.detach().flatten() for value in statistics]).double()


def _means_and_variances_over_slots(statistics: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Means of statistics over the first axis, which is kept with length one, and their variances over it."""
    doubles = [value.detach().double() for value in statistics]
    return [value.mean(0, keepdim=True) for value in doubles], [
        value.var(0, correction=0, keepdim=True) for value in doubles
    ]


class SupportsMomentAccumulators(Protocol):
    """A layer that passes its statistics to accumulators."""

    accumulators: list[MomentAccumulator]


_L = TypeVar("_L", bound=SupportsMomentAccumulators)


@contextmanager
def use_new_moment_accumulators(
    layers: Iterable[_L], decay: float | None = None, *, in_evaluation: bool = False
) -> Iterator[dict[_L, MomentAccumulator]]:
    """Within this context, each layer accumulates the statistics of its training steps.

    Args:
        layers: the layers.
        decay: of the exponential moving average; None for the mean over all mini-batches.
        in_evaluation: accumulate forward passes in evaluation mode too.

    Yields:
        The accumulator of each layer.
    """
    accumulators = {layer: MomentAccumulator(decay, in_evaluation=in_evaluation) for layer in layers}
    with use_moment_accumulators(accumulators):
        yield accumulators


@contextmanager
def use_moment_accumulators(accumulators: Mapping[_L, MomentAccumulator]) -> Iterator[None]:
    """Within this context, each layer also accumulates the statistics of its training steps in its accumulator."""
    for layer, accumulator in accumulators.items():
        layer.accumulators.append(accumulator)
    try:
        yield
    finally:
        for layer, accumulator in accumulators.items():
            layer.accumulators.remove(accumulator)


def flatten_moments_to_tensors(moments: Mapping[str, LayerMoments]) -> dict[str, Tensor]:
    """Flatten the moments of each layer into named tensors, for a checkpoint."""
    tensors: dict[str, Tensor] = {}
    for name, layer_moments in moments.items():
        tensors[f"{name}|sizes"] = torch.tensor([layer_moments.batch_size, layer_moments.values_per_batch])
        if layer_moments.prior_values is not None:
            tensors[f"{name}|prior"] = torch.tensor(layer_moments.prior_values, dtype=torch.float64)
        for kind, pair in (("batch", layer_moments.batch), ("feature", layer_moments.feature)):
            if pair is not None:
                for part, value in zip(StatisticMoments.__dataclass_fields__, pair.as_tuple, strict=True):
                    tensors[f"{name}|{kind}|{part}"] = value.contiguous()
    return tensors


def restore_moments_from_tensors(tensors: Mapping[str, Tensor]) -> dict[str, LayerMoments]:
    """Restore the moments that `flatten_moments_to_tensors` flattened.

    Checkpoints of earlier versions hold E[μ²] (`mean_square`) in place of Var[μ].
    """

    def restore_pair(name: str, kind: str) -> StatisticMoments | None:
        parts = {key.rpartition("|")[2]: value for key, value in tensors.items() if key.startswith(f"{name}|{kind}|")}
        if not parts:
            return None
        if "mean_square" in parts:
            parts["variance_of_mean"] = (parts.pop("mean_square") - parts["mean"].square()).clamp_min(0.0)
        return StatisticMoments(**parts)

    names = [key.removesuffix("|sizes") for key in tensors if key.endswith("|sizes")]
    sizes = {name: [int(value) for value in tensors[f"{name}|sizes"]] for name in names}
    priors = {name: float(tensors[f"{name}|prior"]) for name in names if f"{name}|prior" in tensors}
    return {
        name: LayerMoments(
            restore_pair(name, "batch"), restore_pair(name, "feature"), sizes[name][0], sizes[name][1], priors.get(name)
        )
        for name in names
    }
