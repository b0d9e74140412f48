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

    The moving average with `decay` δ weighs the i-th last mini-batch by δ^i and divides by the sum of the weights.
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
        self._squares: Tensor | None = None
        self._shapes: list[torch.Size] = []

    def update(self, statistics: list[Tensor], batch_size: int, values: int) -> None:
        """Fold in (mean, deviation, variance) of each pair, detached."""
        vector = torch.cat([value.detach().flatten() for value in statistics]).double()
        self.seen += 1
        if batch_size < self.batch_size:
            return
        shapes = [value.shape for value in statistics]
        if self._sum is None or self._squares is None or batch_size > self.batch_size:
            self.batch_size, self.values, self._shapes, self._weight, self.counted = batch_size, values, shapes, 0.0, 0
            self._sum, self._squares = torch.zeros_like(vector), torch.zeros_like(vector)
        if shapes != self._shapes:
            different = next((new, old) for new, old in zip(shapes, self._shapes, strict=True) if new != old)
            raise ModelError(
                f"the normalization layer {self.name or '(without a name)'} gets inputs with a statistic of shape "
                f"{tuple(different[0])} after one of shape {tuple(different[1])}: population values need inputs of one "
                "shape throughout, sequences padded to one length and a layer of its own for each size of image"
            )
        keep, add = (1.0, 1.0) if self.decay is None else (self.decay, 1.0 - self.decay)
        if self.decay is not None:
            self._sum.mul_(keep)
            self._squares.mul_(keep)
        self.counted += 1
        self._weight = self._weight * keep + add
        self._sum.add_(vector, alpha=add)
        self._squares.addcmul_(vector, vector, value=add)

    @property
    def empty(self) -> bool:
        """Has nothing been folded in yet?"""
        return self._weight == 0.0

    def moments(self, *, has_batch: bool, has_feature: bool) -> GatheredMoments:
        """The averages so far."""
        assert self._sum is not None
        assert self._squares is not None
        ends = [0]
        for shape in self._shapes:
            ends.append(ends[-1] + shape.numel())
        means, squares = self._sum / self._weight, self._squares / self._weight
        parts = [means[a:b].view(shape) for (a, b), shape in zip(pairwise(ends), self._shapes, strict=True)]
        square_parts = [squares[a:b].view(shape) for (a, b), shape in zip(pairwise(ends), self._shapes, strict=True)]
        pairs = [
            Moments(mean=parts[i], mean_square=square_parts[i], deviation=parts[i + 1], variance=parts[i + 2])
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
    """What `moments_to_tensors` wrote."""

    def pair(name: str, kind: str) -> Moments | None:
        if f"{name}|{kind}|mean" not in tensors:
            return None
        return Moments(*(tensors[f"{name}|{kind}|{part}"] for part in Moments.__dataclass_fields__))

    names = [key.removesuffix("|sizes") for key in tensors if key.endswith("|sizes")]
    sizes = {name: [int(value) for value in tensors[f"{name}|sizes"]] for name in names}
    return {name: GatheredMoments(pair(name, "batch"), pair(name, "feature"), *sizes[name]) for name in names}
