"""The outputs of a layer over inputs (N, D) under all rows, with a linear layer behind it.

With r_B = w_B/(√d·Std_B), r_F = w_F/(√d·Std_F) and the centres c of `factored`, a linear layer W gives

    W(γ (x − c_B) r_B) + W(γ (c_B − E_B) r_B) + Wβ + b   +   r_F·( Wγ (x − c) + Wγ c − E_F Σγ_d w_d )

Here r_F and E_F are one number an example, so one product Wγ(x − c), c any of the centres c_B, serves every feature
variant; and where r_B is a population value it is the same for all mini-batches and goes into the weights,
W·diag(γ r_B), instead of into the examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.norms.base import NormalizationBase
from bln_search.norms.pair_sources import ByClass, PairedSum
from bln_search.norms.row_sources import LayerRows, Sourced
from bln_search.norms.variants import Measured, Variants


@dataclass(frozen=True)
class DenseSum:
    """A layer over x (G, N, D) under all rows of a plan, to be worked out when it is known what stands behind it."""

    layer: NormalizationBase
    x: Tensor
    prepared: LayerRows
    count: int

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """(D,)."""
        return tuple(self.x.shape[2:])

    @property
    def dtype(self) -> torch.dtype:
        """Of the output."""
        return self.x.dtype

    @property
    def device(self) -> torch.device:
        """Of the output."""
        return self.x.device

    def apply(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> DenseSum | DenseLinear | None:
        """The sum behind a linear layer, or None where `func` is not one."""
        if func in (torch.flatten, Tensor.flatten) and not kwargs and tuple(args) in ((1,), (1, -1), (1, 1)):
            return self
        if func is F.linear:
            return DenseLinear(self, *args, **kwargs)
        return None

    def materialized(self) -> Tensor:
        """(rows·G·N, D): the sum of every row."""
        return self.paired().materialized()

    def paired(self) -> PairedSum:
        """The variants of each pair."""
        gamma, beta = self.layer.weight, self.layer.bias
        of = self.variants()
        batch, feature = [beta.view(1, 1, -1)], None
        if of.batch is not None:
            batch = [
                torch.addcmul(beta, of.batch.centred(mean), gamma * of.batch.scales[scale])
                for (scale, _), mean in zip(of.batch.variants, of.batch.means, strict=True)
            ]
        if of.feature is not None:
            bases = {mean: of.feature.centred(mean) * gamma for mean in dict.fromkeys(of.feature.means)}
            feature = _scaled_variants(of.feature, bases)
        return PairedSum(tuple(batch), feature, of.rows, self.x.shape[0], self.x.shape[1], self.feature_shape)

    def variants(self, *, samples_first: bool = False) -> DenseVariants:
        """Scales and offsets of both pairs; their tensors with axes (G, N, D), or (N, G, D) with samples first."""
        measured = _samples_first(self.x) if samples_first else _groups_first(self.x)
        factors = self.layer.factors(self.layer.batch_size or self.x.shape[1])
        batch = feature = None
        if self.prepared.batch is not None:
            batch = Variants(self.layer.reading, measured(1), self.prepared.batch, factors[0])
        if self.prepared.feature is not None:
            feature = Variants(self.layer.reading, measured(2), self.prepared.feature, factors[1])
        none = [0] * self.count
        row_batch = none if batch is None else batch.row_variant
        row_feature = none if feature is None else feature.row_variant
        return DenseVariants(batch, feature, tuple(zip(row_batch, row_feature, strict=True)))


@dataclass(frozen=True)
class DenseVariants:
    """Of both pairs, None for one that the method does not keep; for each row its batch and its feature variant."""

    batch: Variants | None
    feature: Variants | None
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DenseLinear:
    """A `DenseSum` with a linear layer behind it."""

    dense: DenseSum
    weight: Tensor
    bias: Tensor | None = None

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """(K,)."""
        return (len(self.weight),)

    @property
    def dtype(self) -> torch.dtype:
        """Of the output."""
        return self.dense.dtype

    @property
    def device(self) -> torch.device:
        """Of the output."""
        return self.dense.device

    def apply(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Nothing further is applied to the parts."""
        return

    def materialized(self) -> Tensor:
        """(rows·G·N, K): the sum of every row."""
        return self.paired().materialized()

    def paired(self) -> PairedSum:
        """The variants of each pair, (G, N, K)."""
        of = self.dense.variants()
        batch, feature = self._parts(of, F.linear, self.weight * self.dense.layer.weight)
        return PairedSum(
            tuple(batch), feature, of.rows, self.dense.x.shape[0], self.dense.x.shape[1], self.feature_shape
        )

    def by_class(self) -> ByClass | None:
        """The variants of each pair, (K, N, G); None where there is no feature pair."""
        if self.dense.prepared.feature is None:
            return None
        of = self.dense.variants(samples_first=True)
        batch, feature = self._parts(of, _linear_by_class, self.weight * self.dense.layer.weight)
        assert feature is not None
        return ByClass(tuple(part.expand_as(feature[0]) for part in batch), feature, of.rows)

    def _parts(
        self, of: DenseVariants, linear: Callable[[Tensor, Tensor], Tensor], scaled: Tensor
    ) -> tuple[list[Tensor], Tensor | None]:
        """The batch variants and the feature variants; `linear` puts the K outputs first or last."""
        first = linear is not F.linear
        constant = F.linear(self.dense.layer.bias, self.weight, self.bias)
        constant = constant.view(-1, 1, 1) if first else constant
        if of.feature is None:
            assert of.batch is not None
            batch, _ = self._batch_parts(of.batch, linear, scaled, wanted=False)
            return [part + constant for part in batch], None
        if of.batch is None:
            bases = {mean: linear(of.feature.centred(mean), scaled) for mean in dict.fromkeys(of.feature.means)}
            feature = _scaled_variants(of.feature, bases, constant, first=first)
            return [torch.zeros_like(feature[0])], feature
        batch, product = self._batch_parts(of.batch, linear, scaled, wanted=True)
        assert product is not None
        sums = scaled.sum(1)
        sums = sums.view(-1, 1, 1) if first else sums
        bases = {}
        for mean in dict.fromkeys(of.feature.means):
            value = of.feature.mean(mean)
            bases[mean] = torch.addcmul(product, sums, value.squeeze(-1) if first else value, value=-1)
        return batch, _scaled_variants(of.feature, bases, constant, first=first)

    def _batch_parts(
        self,
        pair: Variants,
        linear: Callable[[Tensor, Tensor], Tensor],
        scaled: Tensor,
        *,
        wanted: bool,
    ) -> tuple[list[Tensor], Tensor | None]:
        """The batch variants behind the linear layer without its constant, and Wγx where it is wanted."""
        outputs_axis = 2 if linear is F.linear else 0
        product: Tensor | None = None
        parts: list[Tensor] = []
        for factor, fixed, centre in zip(pair.scales, pair.constant, pair.centres, strict=True):
            if not fixed:
                parts.append(linear(pair.centred(centre) * factor, scaled))
            elif wanted and product is None:
                both = linear(pair.centred(centre), torch.cat([scaled * factor.view(1, -1), scaled]))
                part, product = torch.split(both, len(scaled), outputs_axis)
                product = product + linear(pair.mean(centre), scaled)
                parts.append(part)
            else:
                parts.append(linear(pair.centred(centre), scaled * factor.view(1, -1)))
        if wanted and product is None:
            product = linear(pair.centred(None), scaled).add_(linear(pair.mean(None), scaled))
        variants = []
        for scale, offset in pair.variants:
            shift = pair.shift(offset)
            part = parts[scale]
            variants.append(part if shift is None else part + linear(shift * pair.scales[scale], scaled))
        return variants, product


def _linear_by_class(x: Tensor, weight: Tensor) -> Tensor:
    """(N, G, D) to (K, N, G)."""
    return torch.mm(weight, x.reshape(-1, x.shape[2]).t()).view(len(weight), *x.shape[:2])


def _scaled_variants(
    pair: Variants, bases: Mapping[Sourced, Tensor], constant: Tensor | None = None, *, first: bool = False
) -> Tensor:
    """constant + base·r_F for every feature variant, its base by its mean: (variants, G, N, K), or with K, N, G."""
    like = next(iter(bases.values()))
    out = like.new_empty((len(pair.variants), *like.shape))
    for target, (scale, _), mean in zip(out, pair.variants, pair.means, strict=True):
        factor = pair.scales[scale].squeeze(-1) if first else pair.scales[scale]
        if constant is None:
            torch.mul(bases[mean], factor, out=target)
        else:
            torch.addcmul(constant, bases[mean], factor, out=target)
    return out


def _groups_first(x: Tensor) -> Callable[[int], Measured]:
    return lambda axis: Measured.of(x, (axis,))


def _samples_first(x: Tensor) -> Callable[[int], Measured]:
    """Statistics of x (G, N, D) with axes (N, G, D), over samples (1) or features (2)."""

    def measured(axis: int) -> Measured:
        if axis == 2:
            return _feature_statistics(x)
        turned = x.transpose(0, 1)
        mean = x.mean(1, keepdim=True).transpose(0, 1)
        centred = torch.sub(turned, mean, out=x.new_empty(turned.shape))
        variance = (centred * centred).mean(0, keepdim=True)
        return Measured(turned, (0,), mean, centred, variance, x.shape[1], samples_first=True)

    return measured


def _feature_statistics(x: Tensor) -> Measured:
    """Of x (G, N, D) over its features, with axes (N, G, 1 or D)."""
    mean = x.mean(2, keepdim=True)
    centred = x - mean
    variance = torch.linalg.vector_norm(centred, dim=2, keepdim=True).square_().div_(x.shape[2])
    turned = [value.transpose(0, 1).contiguous() for value in (mean, variance)]
    samples = x.transpose(0, 1), centred.transpose(0, 1)
    return Measured(samples[0], (2,), turned[0], samples[1], turned[1], x.shape[1], samples_first=True)
