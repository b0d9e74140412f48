"""The outputs of the first normalization layer under all rows, as a sum of few tensors.

With r_B = w_B/(√d·Std_B) and r_F = w_F/(√d·Std_F), the output under a row is

    y = γ·(x − c_B)·r_B + γ·(c_B − E_B)·r_B + β  +  γ·(x − c_F)·r_F + γ·(c_F − E_F)·r_F

with c the mini-batch's own mean where r is the mini-batch's, and the population mean where r is of the population (see
`Variants`), so that nothing large cancels. (x − c)·r has one variant for each distinct deviation, (c_B − E_B)·r_B has
no sample axis, (c_F − E_F)·r_F no feature axis. A linear operation behind the layer is applied to those few; the rows
are sums on its far side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bln_search.norms.pair_sources import PairedSum


@dataclass(frozen=True)
class FactoredSum:
    """Parts of a sum, each with its variants on the first axis and (mini-batch, sample) on the next two.

    scaled_batch: γ·(x − c_B)·r_B, (variants, G, N, *features), or None; scaled_feature likewise.
    offset_batch: β + γ·(c_B − E_B)·r_B, (variants, G or 1, 1, *features).
    offset_feature: (c_F − E_F)·r_F, its feature axis of length one until γ is summed into it; or None.
    The four index tuples say for each batch (feature) variant which scaled part and offset it takes.
    rows: for each row, its batch variant and its feature variant.
    gamma: γ in the shape of the features, None once it has been summed into `offset_feature`.
    feature_axis: which of the axes behind the sample holds features. unflattened: the shape before a flatten, if any.
    """

    scaled_batch: Tensor | None
    offset_batch: Tensor
    scaled_feature: Tensor | None
    offset_feature: Tensor | None
    batch_variants: tuple[tuple[int, int], ...]
    feature_variants: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, int], ...]
    groups: int
    size: int
    feature_shape: tuple[int, ...]
    gamma: Tensor | None
    feature_axis: int
    unflattened: tuple[int, ...] | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of every part."""
        return self.offset_batch.dtype

    @property
    def device(self) -> torch.device:
        """Of every part."""
        return self.offset_batch.device

    def apply(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> FactoredSum | None:
        """The sum behind a linear operation, or None where `func` is not one this form can take."""
        if self.gamma is None:
            return None
        if func in (torch.flatten, Tensor.flatten):
            return self._flattened(args, kwargs)
        if func is F.linear:
            return self._linear(*args, **kwargs)
        if func in (F.conv2d, torch.conv2d) and self.unflattened is None:
            return self._conv2d(*args, **kwargs)
        return None

    def _flattened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FactoredSum | None:
        start = args[0] if args else kwargs.get("start_dim", 0)
        end = args[1] if len(args) > 1 else kwargs.get("end_dim", -1)
        if start != 1 or end not in (-1, len(self.feature_shape)) or self.unflattened is not None:
            return None
        length = 1
        for extent in self.feature_shape:
            length *= extent
        return replace(self, feature_shape=(length,), unflattened=self.feature_shape)

    def _linear(self, weight: Tensor, bias: Tensor | None = None) -> FactoredSum | None:
        assert self.gamma is not None
        if self.unflattened is None and self.feature_axis != len(self.feature_shape) - 1:
            return None  # the operation runs over an axis that is not the feature axis
        shape = self.unflattened or self.feature_shape[-1:]
        axis = self.feature_axis if self.unflattened else 0
        gamma = self.gamma if self.unflattened else self.gamma.reshape(-1)
        folded = (weight.view(-1, *shape) * gamma).sum(axis + 1, keepdim=True).flatten(1)
        last = self.unflattened is not None

        def full(part: Tensor) -> Tensor:
            return F.linear(part.flatten(1) if last else part, weight)

        def narrow(part: Tensor) -> Tensor:
            return F.linear(part.flatten(1) if last else part, folded)

        return self._through(full, narrow, bias)

    def _conv2d(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> FactoredSum | None:
        assert self.gamma is not None
        if groups != 1 or self.gamma.ndim != 3 or self.feature_axis != 0 or isinstance(padding, str):
            return None
        folded = (weight * self.gamma).sum(1, keepdim=True)

        def full(part: Tensor) -> Tensor:
            return torch.conv2d(part, weight, None, stride, padding, dilation)

        def narrow(part: Tensor) -> Tensor:
            return torch.conv2d(part, folded, None, stride, padding, dilation)

        return self._through(full, narrow, None if bias is None else bias.view(-1, 1, 1))

    def _through(
        self, full: Callable[[Tensor], Tensor], narrow: Callable[[Tensor], Tensor], bias: Tensor | None
    ) -> FactoredSum:
        """All parts through the operation: one call for those with features, one for the part without."""
        shape = self.unflattened or self.feature_shape
        parts = [part for part in (self.scaled_batch, self.scaled_feature) if part is not None]
        parts.append(self.offset_batch.expand(*self.offset_batch.shape[:3], *shape))
        flat = [part.reshape(-1, *shape) for part in parts]
        outputs = list(torch.split(full(torch.cat(flat)), [len(part) for part in flat]))
        outputs = [out.view(*part.shape[:3], *out.shape[1:]) for out, part in zip(outputs, parts, strict=True)]
        offset_batch = outputs.pop() if bias is None else outputs.pop() + bias
        scaled_batch = outputs.pop(0) if self.scaled_batch is not None else None
        scaled_feature = outputs.pop(0) if self.scaled_feature is not None else None
        offset_feature = self.offset_feature
        if offset_feature is not None:
            out = narrow(offset_feature.flatten(0, 2))
            offset_feature = out.view(*offset_feature.shape[:3], *out.shape[1:])
        return replace(
            self,
            scaled_batch=scaled_batch,
            offset_batch=offset_batch,
            scaled_feature=scaled_feature,
            offset_feature=offset_feature,
            feature_shape=tuple(offset_batch.shape[3:]),
            gamma=None,
            unflattened=None,
        )

    def materialized(self) -> Tensor:
        """(rows·G·N, *features): the sum of every row."""
        return self.paired().materialized().view(-1, *self.feature_shape)

    def paired(self) -> PairedSum:
        """The variants of each pair, in the shape before a flatten, if any."""
        shape = self.unflattened or self.feature_shape
        batch = tuple(self._batch_variant(scaled, offset) for scaled, offset in self.batch_variants)
        return PairedSum(batch, self._feature_variants(), self.rows, self.groups, self.size, shape)

    def _batch_variant(self, scaled: int, offset: int) -> Tensor:
        if self.scaled_batch is None:
            return self.offset_batch[offset]
        return self.scaled_batch[scaled] + self.offset_batch[offset]

    def _feature_variants(self) -> Tensor | None:
        if self.scaled_feature is None or self.offset_feature is None:
            return None
        shape = (len(self.feature_variants), *self.scaled_feature.shape[1:])
        out = torch.empty(shape, dtype=self.dtype, device=self.device)
        for (scaled, offset), target in zip(self.feature_variants, out, strict=True):
            if self.gamma is None:
                torch.add(self.scaled_feature[scaled], self.offset_feature[offset], out=target)
            else:
                torch.addcmul(self.scaled_feature[scaled], self.offset_feature[offset], self.gamma, out=target)
        return out
