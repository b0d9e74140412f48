"""The few distinct scales and offsets behind all rows, for one pair of statistics over one input."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from bln_search.norms.formula_variant import Reading
from bln_search.norms.row_sources import PairRows, Sourced
from bln_search.norms.statistics import centred_moments

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class Measured:
    """Mini-batches x and their statistics over `axes`: mean μ, x − μ, variance.

    slots: how many examples a mini-batch has. samples_first: are axes (sample, mini-batch, ...)? Otherwise they are
    (mini-batch, sample, ...).
    """

    x: Tensor
    axes: tuple[int, ...]
    mean: Tensor
    centred: Tensor
    variance: Tensor
    slots: int
    samples_first: bool = False

    @staticmethod
    def of(groups: Tensor, axes: tuple[int, ...]) -> Measured:
        """Of an input (G, N, ...), over `axes`."""
        return Measured(groups, axes, *centred_moments(groups, axes), groups.shape[1])

    def population(self, value: Tensor) -> Tensor:
        """A population value (slots or 1, ...) cut to the mini-batch at hand, in the shape of these statistics."""
        value = value[: self.slots]
        return value.unsqueeze(1) if self.samples_first else value


class Variants:
    """The distinct scales r of one pair, x centred for each of them, and the shifts that are left for other means.

    A scale from the population goes with x − E, E the mean of the same estimate: what is not of the mini-batch must not
    pass through its mean, which one extreme example can move anywhere. A scale of the mini-batch goes with x less the
    mean that it is taken around.

    scales: one tensor for each distinct deviation, in a shape that broadcasts against μ's. constant: for each, whether
    it is a population value, the same for all mini-batches.
    variants: for each distinct (mean, deviation) the index of its scale and its own index.
    row_variant: for each row its variant.
    """

    def __init__(self, reading: Reading, measured: Measured, pair: PairRows, factor: float) -> None:
        self._measured, self._epsilon, self._pair = measured, reading.epsilon, pair
        self._centred: dict[Sourced, Tensor] = {None: measured.centred}
        keys = [_deviation_key(source, around_chosen=reading.around_chosen_mean) for source in pair.sources]
        distinct_keys = _distinct(keys)
        self.scales = [factor / self._deviation(key) for key in distinct_keys]
        self.constant = [kind == "population" for kind, _ in distinct_keys]
        self.centres: list[Sourced] = [
            None if kind == "population" and source not in pair.finite else source for kind, source in distinct_keys
        ]
        pairs = _distinct(zip((source[0] for source in pair.sources), keys, strict=True))
        scale_of = [distinct_keys.index(key) for _, key in pairs]
        self.means: list[Sourced] = [source for source, _ in pairs]
        self.variants = tuple((scale, offset) for offset, scale in enumerate(scale_of))
        self.row_variant = [pairs.index((source[0], key)) for source, key in zip(pair.sources, keys, strict=True)]

    def mean(self, source: Sourced) -> Tensor:
        """The mean from a source, in a shape that broadcasts against x; None is the mini-batch."""
        if source is None:
            return self._measured.mean
        return self._measured.population(self._pair.populations[source].mean)

    def centred(self, source: Sourced) -> Tensor:
        """x less the mean from a source."""
        if source not in self._centred:
            x = self._measured.x
            self._centred[source] = torch.sub(x, self.mean(source), out=x.new_empty(x.shape))
        return self._centred[source]

    def shift(self, variant: int) -> Tensor | None:
        """What to add to x − centre of its scale to get x − mean of the variant; None for nothing."""
        centre, source = self.centres[self.variants[variant][0]], self.means[variant]
        return None if source == centre else self.mean(centre) - self.mean(source)

    def scaled(self, gamma: Tensor) -> Tensor:
        """γ·(x − centre)·r for each scale: (scales, G, N, ...)."""
        out = self._measured.x.new_empty((len(self.scales), *self._measured.x.shape))
        for place, (scale, centre) in enumerate(zip(self.scales, self.centres, strict=True)):
            torch.mul(self.centred(centre), gamma * scale, out=out[place])
        return out

    @property
    def offsets(self) -> Tensor:
        """(variants, G, N or 1, ...)."""
        found = []
        for variant, (scale, _) in enumerate(self.variants):
            shift = self.shift(variant)
            offset = torch.zeros_like(self._measured.mean) if shift is None else shift * self.scales[scale]
            found.append(offset.expand_as(self._measured.mean))
        return torch.stack(found)

    def _deviation(self, key: tuple[str, Sourced]) -> Tensor:
        kind, source = key
        if kind == "population":
            assert source is not None
            deviation = self._pair.populations[source].deviation
            assert deviation is not None
            return self._measured.population(deviation)
        variance = self._measured.variance
        if source is not None:
            variance = self.centred(source).square().mean(self._measured.axes, keepdim=True)
        return torch.sqrt(variance + self._epsilon)


def _deviation_key(source: tuple[Sourced, Sourced], *, around_chosen: bool) -> tuple[str, Sourced]:
    """What a row's deviation depends on: its population estimate, or the mean it is taken around."""
    mean, deviation = source
    if deviation is not None:
        return "population", deviation
    return "mini-batch", mean if around_chosen else None


def _distinct(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))
