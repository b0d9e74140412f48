"""The distinct scales and offsets of all rows, for one pair of statistics over one input."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from bln_search.norms.formula_variant import FormulaVariant
from bln_search.norms.mixture import StoredAndMiniBatchMixture, mix_means, mix_variances
from bln_search.norms.row_batching.factored_sum import NO_OFFSET
from bln_search.norms.row_batching.row_sources import EstimateOrBatch, PairSourcesByRow
from bln_search.norms.statistics import mean_and_centred_and_variance

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class MiniBatchStatistics:
    """Mini-batches and their statistics over `axes`.

    Attributes:
        x: the mini-batches.
        axes: over which the statistics are computed.
        mean: μ.
        variance: of x.
        slots: number of examples in a mini-batch.
        centred: x − μ; None where it is computed on first use.
    """

    x: Tensor
    axes: tuple[int, ...]
    mean: Tensor
    variance: Tensor
    slots: int
    centred: Tensor | None = None

    @property
    def num_values_per_mean(self) -> int:
        """Number of values that one mean averages."""
        return self.x.numel() // self.mean.numel()

    def stored_share_in(self, mixture: StoredAndMiniBatchMixture) -> float:
        """Return the share of the stored value in a mixture."""
        return mixture.stored_share(self.slots, self.num_values_per_mean)

    @staticmethod
    def compute(groups: Tensor, axes: tuple[int, ...]) -> MiniBatchStatistics:
        """Compute the statistics of an input (G, N, ...) over `axes`."""
        mean, centred, variance = mean_and_centred_and_variance(groups, axes)
        return MiniBatchStatistics(groups, axes, mean, variance, groups.shape[1], centred)

    def cut_to_mini_batch_size(self, value: Tensor) -> Tensor:
        """Return a population value (slots or 1, ...) without the slots that the mini-batch does not have."""
        return value[: self.slots]


class ScaleOffsetVariants:
    """The distinct scales r of one pair, x centred for each scale, and the shifts from there to other means.

    A scale from the population is combined with x − E, E the mean of the same estimate: such rows must not depend on
    the mean of the mini-batch, which one extreme example can shift arbitrarily. A scale from the mini-batch is combined
    with x less the mean around which its deviation is computed.

    Args:
        formula_variant: details of the formulas.
        moments: the mini-batches and their statistics.
        sources: sources of the pair in every row.
        weight: branch weight of the pair.

    Attributes:
        scales: one tensor for each distinct deviation, in a shape that broadcasts against μ.
        is_constant: for each scale, whether it is a population value, the same for all mini-batches.
        centres: for each scale, the source of the mean with which it is combined.
        variants: for each distinct (mean, deviation), the index of its scale and its own index.
        means: for each variant, the source of its mean.
        row_variant: for each row, the index of its variant.
    """

    def __init__(
        self, formula_variant: FormulaVariant, moments: MiniBatchStatistics, sources: PairSourcesByRow, weight: float
    ) -> None:
        self._moments, self._formula_variant, self._populations = moments, formula_variant, sources.populations
        self._prior_mean = sources.prior_mean
        self._centred: dict[EstimateOrBatch, Tensor] = {} if moments.centred is None else {None: moments.centred}
        keys = [
            _DeviationKey.from_sources(mean, deviation, around_selected_mean=formula_variant.around_selected_mean)
            for mean, deviation in sources.sources
        ]
        distinct_keys = _unique_in_order(keys)
        self.scales = [weight / self._compute_deviation(key) for key in distinct_keys]
        self.is_constant = [key.is_population for key in distinct_keys]
        self.centres: list[EstimateOrBatch] = [
            key.around if not key.is_population else key.source if _is_finite(key.source, sources) else None
            for key in distinct_keys
        ]
        pairs = _unique_in_order(zip((source[0] for source in sources.sources), keys, strict=True))
        scale_of_pair = [distinct_keys.index(key) for _, key in pairs]
        self.means: list[EstimateOrBatch] = [source for source, _ in pairs]
        self.variants = tuple((scale, offset) for offset, scale in enumerate(scale_of_pair))
        self.row_variant = [pairs.index((source[0], key)) for source, key in zip(sources.sources, keys, strict=True)]

    def mean_from_source(self, source: EstimateOrBatch) -> Tensor:
        """Return the mean from a source, in a shape that broadcasts against x; None is the mini-batch."""
        if source is None:
            return self._moments.mean
        value = self._moments.cut_to_mini_batch_size(self._populations[source.name].mean)
        if source.mixture is None:
            return value
        return mix_means(self._moments.mean, value, self._moments.stored_share_in(source.mixture))

    def centred_by_source(self, source: EstimateOrBatch) -> Tensor:
        """Return x less the mean from a source."""
        if source not in self._centred:
            x = self._moments.x
            self._centred[source] = torch.sub(x, self.mean_from_source(source), out=x.new_empty(x.shape))
        return self._centred[source]

    def find_shift_of_variant(self, variant: int) -> Tensor | None:
        """Return (x − mean of the variant) − (x − centre of its scale); None for zero."""
        centre, source = self.centres[self.variants[variant][0]], self.means[variant]
        return None if source == centre else self.mean_from_source(centre) - self.mean_from_source(source)

    def scaled_inputs_per_scale(self, gamma: Tensor) -> Tensor:
        """Return γ·(x − centre)·r for each scale: (scales, G, N, ...)."""
        out = self._moments.x.new_empty((len(self.scales), *self._moments.x.shape))
        for target, scale, centre in zip(out, self.scales, self.centres, strict=True):
            torch.mul(self.centred_by_source(centre), gamma * scale, out=target)
        return out

    @property
    def offset_per_variant(self) -> Tensor:
        """Shift times scale of each variant: (variants, G, N or 1, ...)."""
        offsets = []
        for variant, (scale, _) in enumerate(self.variants):
            shift = self.find_shift_of_variant(variant)
            offset = torch.zeros_like(self._moments.mean) if shift is None else shift * self.scales[scale]
            offsets.append(offset.expand_as(self._moments.mean))
        return torch.stack(offsets)

    def nonzero_offsets_and_variants(self) -> tuple[Tensor, tuple[tuple[int, int], ...]]:
        """Return shift times scale of the variants with a shift, (offsets, G, N or 1, ...), and all variants.

        A variant has the index of its scale and that of its offset, NO_OFFSET where it has no shift.
        """
        offsets: list[Tensor] = []
        variants: list[tuple[int, int]] = []
        for variant, (scale, _) in enumerate(self.variants):
            shift = self.find_shift_of_variant(variant)
            variants.append((scale, NO_OFFSET if shift is None else len(offsets)))
            if shift is not None:
                offsets.append((shift * self.scales[scale]).expand_as(self._moments.mean))
        mean = self._moments.mean
        return torch.stack(offsets) if offsets else mean.new_empty(0, *mean.shape), tuple(variants)

    def _compute_deviation(self, key: _DeviationKey) -> Tensor:
        deviation = None if key.source is None else self._populations[key.source.name].deviation
        mixture = None if key.source is None else key.source.mixture
        if deviation is not None:
            deviation = self._moments.cut_to_mini_batch_size(deviation)
            if mixture is None:
                return deviation
        variance = self._moments.variance
        if key.around is not None:
            variance = self._compute_variance_around(key.around)
        batch_deviation = self._formula_variant.compute_batch_deviation(variance, self._moments.num_values_per_mean)
        if deviation is None or mixture is None:
            return batch_deviation
        share = self._moments.stored_share_in(mixture)
        between = self._prior_mean if mixture.has_between_variance else None
        distance = None if between is None else self._moments.mean - self._moments.cut_to_mini_batch_size(between)
        return mix_variances(batch_deviation.square(), deviation.square(), share, distance).sqrt()

    def _compute_variance_around(self, source: EstimateOrBatch) -> Tensor:
        """Return the mean of (x − E)², E the mean from a source: Var + (μ − E)², where that is finite.

        An infinite example makes Var undefined, but not the mean of (x − E)². A GPU is not asked whether it is finite.
        """
        moments = self._moments
        if moments.x.device.type == "cpu":
            variance = moments.variance + (moments.mean - self.mean_from_source(source)).square()
            if bool(variance.sum().isfinite()):
                return variance
        return self.centred_by_source(source).square().mean(moments.axes, keepdim=True)


class _DeviationKey(NamedTuple):
    """What determines the deviation of a row.

    Attributes:
        source: of the deviation.
        around: source of the mean around which the variance of the mini-batch is computed.
    """

    source: EstimateOrBatch
    around: EstimateOrBatch

    @staticmethod
    def from_sources(mean: EstimateOrBatch, deviation: EstimateOrBatch, *, around_selected_mean: bool) -> _DeviationKey:
        """Return the key of a row with these sources."""
        is_population = _DeviationKey(deviation, None).is_population
        return _DeviationKey(deviation, mean if around_selected_mean and not is_population else None)

    @property
    def is_population(self) -> bool:
        """Whether it is a population value, the same for all mini-batches."""
        return self.source is not None and self.source.mixture is None


def _is_finite(source: EstimateOrBatch, sources: PairSourcesByRow) -> bool:
    return source is not None and source.name in sources.finite_means


def _unique_in_order(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))
