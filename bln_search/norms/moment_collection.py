"""Gathering statistics over mini-batches, from which population values are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from bln_search.core.errors import ModelError
from bln_search.norms.statistics import Moments


@dataclass(frozen=True)
class GatheredMoments:
    """What one layer gathered: moments of its pairs, the mini-batch size m, values averaged in a mini-batch mean.

    Feature moments are kept one a slot of the mini-batch, in the input's first axis.
    """

    batch: Moments | None
    feature: Moments | None
    batch_size: int
    values: int


class Gatherer:
    """Folds one layer's mini-batch statistics in float64: a mean over all of them, or an exponential moving average.

    The moving average with `decay` δ weighs the i-th last mini-batch by δ^i and divides by the sum of the weights. The
    variance over mini-batches is updated around the mean so far (West 1979), so that it does not cancel where means
    are far from zero.
    Mini-batches smaller than the largest are left out: an incomplete one has statistics of its own.
    in_evaluation: fold passes in evaluation mode too, not only training steps. seen, counted: mini-batches, and those
    of them that are folded in.
    """

    def __init__(self, decay: float | None = None, *, in_evaluation: bool = False) -> None:
        self.decay = decay
        self.in_evaluation = in_evaluation
        self.name = ""
        self.batch_size = 0
        self.values = 0
        self.seen = self.counted = 0
        self._weight = 0.0
        self._sum: Tensor | None = None
        self._scatter: Tensor | None = None
        self._shapes: list[torch.Size] = []

    def update(self, statistics: list[Tensor], batch_size: int, values: int) -> None:
        """Fold in (mean, deviation, variance) of each pair, detached."""
        vector = torch.cat([value.detach().flatten() for value in statistics]).double()
        self.seen += 1
        if batch_size < self.batch_size:
            return
        shapes = [value.shape for value in statistics]
        if self._sum is None or self._scatter is None or batch_size > self.batch_size:
            self.batch_size, self.values, self._shapes, self._weight, self.counted = batch_size, values, shapes, 0.0, 0
            self._sum, self._scatter = torch.zeros_like(vector), torch.zeros_like(vector)
        if shapes != self._shapes:
            different = next((new, old) for new, old in zip(shapes, self._shapes, strict=True) if new != old)
            raise ModelError(
                f"the normalization layer {self.name or '(without a name)'} gets inputs with a statistic of shape "
                f"{tuple(different[0])} after one of shape {tuple(different[1])}: population values need inputs of one "
                "shape throughout, sequences padded to one length and a layer of its own for each size of image"
            )
        keep, add = (1.0, 1.0) if self.decay is None else (self.decay, 1.0 - self.decay)
        before = self._weight * keep
        if before > 0:
            distance = vector - self._sum / self._weight
            self._scatter.mul_(keep).addcmul_(distance, distance, value=add * before / (before + add))
        self.counted += 1
        self._weight = before + add
        self._sum.mul_(keep).add_(vector, alpha=add)

    @property
    def empty(self) -> bool:
        """Has nothing been folded in yet?"""
        return self._weight == 0.0

    def moments(self, *, has_batch: bool, has_feature: bool) -> GatheredMoments:
        """The averages so far."""
        assert self._sum is not None
        assert self._scatter is not None
        ends = [0]
        for shape in self._shapes:
            ends.append(ends[-1] + shape.numel())
        means, variances = self._sum / self._weight, self._scatter / self._weight
        parts = [means[a:b].view(shape) for (a, b), shape in zip(pairwise(ends), self._shapes, strict=True)]
        spreads = [variances[a:b].view(shape) for (a, b), shape in zip(pairwise(ends), self._shapes, strict=True)]
        pairs = [
            Moments(mean=parts[i], variance_of_mean=spreads[i], deviation=parts[i + 1], variance=parts[i + 2])
            for i in range(0, len(parts), 3)
        ]
        batch = pairs.pop(0) if has_batch else None
        feature = pairs.pop(0) if has_feature else None
        return GatheredMoments(batch, feature, self.batch_size, self.values)


class HasGatherers(Protocol):
    """A layer that hands its statistics to gatherers."""

    gatherers: list[Gatherer]


_L = TypeVar("_L", bound=HasGatherers)


@contextmanager
def gathering(
    layers: Iterable[_L], decay: float | None = None, *, in_evaluation: bool = False
) -> Iterator[dict[_L, Gatherer]]:
    """While this context is open, every layer folds its training steps' statistics into a gatherer of its own."""
    gatherers = {layer: Gatherer(decay, in_evaluation=in_evaluation) for layer in layers}
    for layer, gatherer in gatherers.items():
        layer.gatherers.append(gatherer)
    try:
        yield gatherers
    finally:
        for layer, gatherer in gatherers.items():
            layer.gatherers.remove(gatherer)


def moments_to_tensors(gathered: Mapping[str, GatheredMoments]) -> dict[str, Tensor]:
    """Flat names and tensors, for a checkpoint."""
    tensors: dict[str, Tensor] = {}
    for name, layer in gathered.items():
        tensors[f"{name}|sizes"] = torch.tensor([layer.batch_size, layer.values])
        for kind, pair in (("batch", layer.batch), ("feature", layer.feature)):
            if pair is not None:
                for part, value in zip(Moments.__dataclass_fields__, pair.parts, strict=True):
                    tensors[f"{name}|{kind}|{part}"] = value.contiguous()
    return tensors


def moments_from_tensors(tensors: Mapping[str, Tensor]) -> dict[str, GatheredMoments]:
    """What `moments_to_tensors` wrote; checkpoints of earlier versions hold E[μ²] in place of Var[μ]."""

    def pair(name: str, kind: str) -> Moments | None:
        held = {key.rpartition("|")[2]: value for key, value in tensors.items() if key.startswith(f"{name}|{kind}|")}
        if not held:
            return None
        if "mean_square" in held:
            held["variance_of_mean"] = (held.pop("mean_square") - held["mean"].square()).clamp_min(0.0)
        return Moments(**held)

    names = [key.removesuffix("|sizes") for key in tensors if key.endswith("|sizes")]
    sizes = {name: [int(value) for value in tensors[f"{name}|sizes"]] for name in names}
    return {name: GatheredMoments(pair(name, "batch"), pair(name, "feature"), *sizes[name]) for name in names}
