"""The few distinct scales and offsets behind all rows, for one pair of statistics over one input."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from bln_search.norms.reading import Reading
from bln_search.norms.rows import PairRows, Sourced
from bln_search.norms.statistics import centred_moments

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class Measured:
    """Statistics of mini-batches: mean μ, x − μ, variance. slots: how many examples a mini-batch has.

    samples_first: are axes (sample, mini-batch, ...)? Otherwise they are (mini-batch, sample, ...).
    """

    mean: Tensor
    centred: Tensor
    variance: Tensor
    slots: int
    samples_first: bool = False

    @staticmethod
    def of(groups: Tensor, axes: tuple[int, ...]) -> Measured:
        """Of an input (G, N, ...), over `axes`."""
        return Measured(*centred_moments(groups, axes), groups.shape[1])

    def population(self, value: Tensor) -> Tensor:
        """A population value (slots or 1, ...) cut to the mini-batch at hand, in the shape of these statistics."""
        value = value[: self.slots]
        return value.unsqueeze(1) if self.samples_first else value


class Variants:
    """The distinct scales r and offsets (μ − E)·r of one pair.

    scales: one tensor for each distinct deviation, in a shape that broadcasts against μ's. constant: for each, whether
    it is a population value, the same for all mini-batches.
    variants: for each distinct (mean, deviation) the index of its scale and its offset.
    row_variant: for each row its variant.
    """

    def __init__(self, reading: Reading, measured: Measured, pair: PairRows, factor: float) -> None:
        self.mean, self.centred = measured.mean, measured.centred
        self._measured, self._epsilon, self._pair = measured, reading.epsilon, pair
        keys = [_deviation_key(source, around_chosen=reading.around_chosen_mean) for source in pair.sources]
        distinct_keys = _distinct(keys)
        self.scales = [factor / self._deviation(key) for key in distinct_keys]
        self.constant = [kind == "population" for kind, _ in distinct_keys]
        pairs = _distinct(zip((source[0] for source in pair.sources), keys, strict=True))
        scale_of = [distinct_keys.index(key) for _, key in pairs]
        self._means = [source for source, _ in pairs]
        self.variants = tuple((scale, offset) for offset, scale in enumerate(scale_of))
        self.row_variant = [pairs.index((source[0], key)) for source, key in zip(pair.sources, keys, strict=True)]

    def shift(self, variant: int) -> Tensor | None:
        """μ − E in a variant; None where its mean is the mini-batch's, and nothing is shifted."""
        source = self._means[variant]
        return None if source is None else self._shift(source)

    @property
    def stacked_scales(self) -> Tensor:
        """(distinct deviations, G, N or 1, ...)."""
        return torch.stack([scale.expand(self.mean.shape) for scale in self.scales])

    @property
    def offsets(self) -> Tensor:
        """(variants, G, N or 1, ...)."""
        found = []
        for variant, (scale, _) in enumerate(self.variants):
            shift = self.shift(variant)
            found.append(torch.zeros_like(self.mean) if shift is None else shift * self.scales[scale])
        return torch.stack(found)

    def _shift(self, source: Sourced) -> Tensor:
        assert source is not None
        return self.mean - self._measured.population(self._pair.populations[source].mean)

    def _deviation(self, key: tuple[str, Sourced]) -> Tensor:
        kind, source = key
        if kind == "population":
            assert source is not None
            deviation = self._pair.populations[source].deviation
            assert deviation is not None
            return self._measured.population(deviation)
        around = self._measured.variance
        return torch.sqrt((around if source is None else around + self._shift(source).square()) + self._epsilon)


def _deviation_key(source: tuple[Sourced, Sourced], *, around_chosen: bool) -> tuple[str, Sourced]:
    """What a row's deviation depends on: its population estimate, or the mean it is taken around."""
    mean, deviation = source
    if deviation is not None:
        return "population", deviation
    return "mini-batch", mean if around_chosen else None


def _distinct(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))
